/** The assumed account and region of a stack. */
export interface Place {
  readonly stack: string;
  readonly region: string;
  readonly account: string;
}

/**
 * The value of `Ref` for a resource without a name. It has the form of AWS's names but is always
 * the same.
 * @throws Error if the type is unknown here
 */
export function idOf(id: string, type: string, { stack, region, account }: Place): string {
  switch (type) {
    case 'AWS::SQS::Queue':
      return `https://sqs.${region}.amazonaws.com/${account}/${stack}-${id}.fifo`;
    case 'AWS::S3::Bucket':
      return `${stack}-${id}`.toLowerCase();
    case 'AWS::IAM::ManagedPolicy':
      return `arn:aws:iam::${account}:policy/${stack}-${id}`;
    case 'AWS::SNS::Topic':
      return `arn:aws:sns:${region}:${account}:${stack}-${id}`;
    case 'event':
    case 'AWS::Lambda::EventSourceMapping':
      return `uuid-of-${id}`;
    case 'AWS::DynamoDB::Table':
    case 'AWS::Serverless::Function':
    case 'AWS::Lambda::Function':
    case 'AWS::IAM::Role':
    case 'AWS::Logs::LogGroup':
    case 'AWS::CloudWatch::Alarm':
    case 'AWS::CloudWatch::Dashboard':
    case 'AWS::CloudFormation::Stack':
    case 'AWS::Scheduler::Schedule':
      return `${stack}-${id}`;
    default:
      throw new Error(`unknown Ref of ${id} of type ${type}. Add the type to cloudformation-ids.ts.`);
  }
}

/**
 * The value of `GetAtt` for a resource.
 * @throws Error if the attribute is unknown here
 */
export function attributeOf(
  { id, ref, name }: { readonly id: string; readonly ref: string; readonly name: string },
  type: string,
  { region, account }: Place,
): string {
  const regional = (service: string, rest: string): string => `arn:aws:${service}:${region}:${account}:${rest}`;
  switch (`${type} ${name}`) {
    case 'AWS::SQS::Queue Arn':
      return regional('sqs', lastPart(ref));
    case 'AWS::SQS::Queue QueueName':
      return lastPart(ref);
    case 'AWS::S3::Bucket Arn':
      return `arn:aws:s3:::${ref}`;
    case 'AWS::DynamoDB::Table Arn':
      return regional('dynamodb', `table/${ref}`);
    case 'AWS::DynamoDB::Table StreamArn':
      return regional('dynamodb', `table/${ref}/stream/2026-01-01T00:00:00.000`);
    case 'AWS::Serverless::Function Arn':
    case 'AWS::Lambda::Function Arn':
      return regional('lambda', `function:${ref}`);
    case 'event Arn':
      return `arn:aws:iam::${account}:role/${id}`;
    case 'AWS::IAM::Role Arn':
      return `arn:aws:iam::${account}:role/${ref}`;
    case 'AWS::Logs::LogGroup Arn':
      return regional('logs', `log-group:${ref}:*`);
    case 'AWS::CloudWatch::Alarm Arn':
      return regional('cloudwatch', `alarm:${ref}`);
    default:
      throw new Error(`unknown GetAtt of ${id}.${name} of type ${type}. Add the attribute to cloudformation-ids.ts.`);
  }
}

function lastPart(url: string): string {
  return url.slice(url.lastIndexOf('/') + 1);
}
