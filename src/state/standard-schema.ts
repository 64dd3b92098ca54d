/**
 * A schema of any library that follows Standard Schema (https://standardschema.dev), such as zod,
 * valibot or ArkType. These are the parts that logfold uses.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
  };
}

type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type of a value that a schema accepts. */
export type SchemaInput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['input'];
/** The type of a value that a schema has checked. */
export type SchemaOutput<S extends StandardSchema> = NonNullable<S['~standard']['types']>['output'];

/**
 * Checks a value with a schema.
 * @returns the value that the schema made of it, or the reasons why it does not fit
 */
export async function checkWithSchema(
  schema: StandardSchema,
  value: unknown,
): Promise<{ readonly value: unknown } | { readonly reasons: string }> {
  const result = await schema['~standard'].validate(value);
  if (result.issues === undefined) return { value: result.value };
  return { reasons: result.issues.map(describeIssue).join('; ') };
}

function describeIssue({ message, path = [] }: SchemaIssue): string {
  if (path.length === 0) return message;
  return `${path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')}: ${message}`;
}
