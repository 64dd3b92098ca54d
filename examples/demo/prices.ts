import type { Environment } from '../../src/cli/environment.ts';

/** Prices of one service, and their source. */
interface PriceList {
  /** Title and address of the page. */
  readonly source: string;
  /** Year and month for which the prices are known. */
  readonly asOf: string;
  /** US dollars for a million. */
  readonly perMillion: Readonly<Record<string, number>>;
}

/**
 * List prices of the region us-east-1 in US dollars, without free tier, discounts and taxes. The
 * prices of DynamoDB's on-demand requests are valid since 1 November 2024.
 *
 * The prices of SQS, Lambda and storage come from other publications that quote Amazon's pages and
 * price lists, and have the dates of these publications. The price of DynamoDB storage comes from a
 * list for us-west-2.
 */
export const PRICES = {
  region: 'us-east-1',
  dynamodb: {
    source: 'Pricing for On-Demand Capacity, aws.amazon.com/dynamodb/pricing/on-demand (Standard table class)',
    asOf: '2025-07',
    perMillion: { writeUnits: 0.625, readUnits: 0.125 },
  },
  s3: {
    source: 'Amazon S3 pricing, Requests & data retrievals, aws.amazon.com/s3/pricing (S3 Standard)',
    asOf: '2026-03',
    perMillion: { puts: 5, lists: 5, gets: 0.4 },
  },
  sqs: {
    source: 'Amazon SQS pricing, FIFO queues, aws.amazon.com/sqs/pricing',
    asOf: '2026-06',
    perMillion: { requests: 0.5 },
  },
  sns: {
    source: 'Amazon SNS pricing, standard topics, aws.amazon.com/sns/pricing (delivery to Lambda is free)',
    asOf: '2026-06',
    perMillion: { publishes: 0.5 },
  },
  lambda: {
    source: 'AWS Lambda Pricing, Arm, first tier, aws.amazon.com/lambda/pricing',
    asOf: '2026-05',
    perMillion: { invocations: 0.2, gigabyteSeconds: 13.3334 },
  },
  storage: {
    source: 'AWS Price List, AmazonDynamoDB (Standard table class) and AmazonS3 (S3 Standard, first 50 TB)',
    asOf: '2026-08',
    perMillion: { tableMegabyteMonths: 250, bucketMegabyteMonths: 23 },
  },
} as const satisfies { region: string } & Readonly<
  Record<'dynamodb' | 's3' | 'sqs' | 'sns' | 'lambda' | 'storage', PriceList>
>;

/** Requests as Amazon counts and bills them. */
export interface Usage {
  readonly dynamodb: { readonly requests: number; readonly writeUnits: number; readonly readUnits: number };
  readonly s3: { readonly puts: number; readonly gets: number; readonly lists: number };
}

/** The requests that an environment has sent to tables and bucket so far. */
export function usageOf(environment: Pick<Environment, 'requests' | 'blobs'>): Usage {
  const { requests, writeUnits, readUnits } = environment.requests;
  const { puts, gets, lists } = environment.blobs.usage();
  return { dynamodb: { requests, writeUnits, readUnits }, s3: { puts, gets, lists } };
}

/** The cost of requests by {@link PRICES}, in US dollars. Deleting is free. */
export function priceOf({ dynamodb, s3 }: Usage): number {
  const tables = PRICES.dynamodb.perMillion;
  const bucket = PRICES.s3.perMillion;
  const millionths =
    dynamodb.writeUnits * tables.writeUnits +
    dynamodb.readUnits * tables.readUnits +
    s3.puts * bucket.puts +
    s3.lists * bucket.lists +
    s3.gets * bucket.gets;
  return millionths / 1e6;
}
