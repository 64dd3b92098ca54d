import { z } from 'zod';

const text = z.union([z.string(), z.number()]).transform(String);

export const parameterSchema = z.strictObject({
  Type: z.enum(['String', 'Number', 'CommaDelimitedList']),
  Default: text.optional(),
  Description: z.string(),
  AllowedValues: z.array(text).optional(),
  AllowedPattern: z.string().optional(),
  ConstraintDescription: z.string().optional(),
  MinLength: z.number().optional(),
  MaxLength: z.number().optional(),
  MinValue: z.number().optional(),
  MaxValue: z.number().optional(),
});

/** A parameter declaration of the template. */
export type Parameter = z.output<typeof parameterSchema>;

/**
 * Checks a value against the template's constraints, like CloudFormation before it creates
 * resources.
 * @param given undefined for the default
 * @throws Error naming the parameter
 */
export function checkParameter(name: string, parameter: Parameter, given: string | undefined): string {
  const value = given ?? parameter.Default;
  if (value === undefined) throw new Error(`parameter ${name} has no value`);
  const { Type, AllowedValues, AllowedPattern, MinLength = 0, MaxLength = 4096 } = parameter;
  const refuse = (reason: string): never => {
    throw new Error(`parameter ${name}: '${value}' ${parameter.ConstraintDescription ?? reason}`);
  };
  if (AllowedValues !== undefined && !AllowedValues.includes(value))
    refuse(`must be one of ${AllowedValues.join(', ')}`);
  if (Type === 'Number') {
    const { MinValue = Number.NEGATIVE_INFINITY, MaxValue = Number.POSITIVE_INFINITY } = parameter;
    const number = value.trim() === '' ? Number.NaN : Number(value);
    if (!(number >= MinValue && number <= MaxValue)) refuse(`must be a number from ${MinValue} to ${MaxValue}`);
  } else {
    if (value.length < MinLength || value.length > MaxLength)
      refuse(`must have ${MinLength} to ${MaxLength} characters`);
    if (AllowedPattern !== undefined && !new RegExp(`^(?:${AllowedPattern})$`).test(value)) refuse('has another form');
  }
  return value;
}
