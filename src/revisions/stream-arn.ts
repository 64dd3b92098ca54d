/** Captures the table and the label. */
const STREAM_ARN = /^arn:[^:]+:dynamodb:[^:]*:[^:]*:table\/([^/]+)\/stream\/(.+)$/;

/** The table in the ARN of a stream; undefined if the text is no ARN of a stream. */
export function streamTable(arn: string): string | undefined {
  return STREAM_ARN.exec(arn)?.[1];
}

/**
 * The label in the ARN of a stream: the time at which the stream was turned on. Undefined if the
 * text is no ARN of a stream.
 */
export function streamLabel(arn: string): string | undefined {
  return STREAM_ARN.exec(arn)?.[2];
}
