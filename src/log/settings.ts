import * as z from 'zod';
import { PolicyInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';

/**
 * How the command line gives a setting of a policy. Everything else follows from the name and the
 * schema: `keepDays` is the option `--keep-days <n>`, the variable `KEEP_DAYS` of a function, and
 * the parameter `KeepDays` of the template.
 */
export interface SettingTexts {
  readonly help: string;
  /** The flags of the option, if they do not follow from the name. */
  readonly option?: string;
  /** The help of the option against it: a switch has two. */
  readonly off?: string;
}

/** The texts of the settings of all policies. A setting without texts is not an option. */
export const settingTexts = z.registry<SettingTexts>();

/**
 * Validates settings of a policy.
 * @param log the log of the policy, for the error; undefined for the deployment's policy
 * @throws PolicyInvalidError if a value is out of range; it names the first such setting
 */
export function checkSettings<T extends z.ZodObject>(
  policy: 'retention' | 'division',
  schema: T,
  given: Readonly<Record<string, unknown>>,
  log?: LogId,
): z.output<T> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const name = String(parsed.error.issues[0]?.path[0]);
  throw new PolicyInvalidError(`the ${policy} policy is invalid: ${name} is ${String(given[name])}`, {
    log,
    advice: `Give ${describeValues(schema.shape[name])}`,
  });
}

/** The values of a setting, such as `a whole number from 1 to 9`; undefined for other texts. */
export function describeValues(field: unknown): string | undefined {
  const choices = choicesIn(field);
  if (choices !== undefined) return `one of ${choices.join(', ')}`;
  const number = numberIn(field);
  if (number === undefined) return undefined;
  const { isInt, minValue, maxValue } = number;
  const off = number === withoutDefault(field) ? '' : ', or 0 to switch it off';
  return `${isInt ? 'a whole number' : 'a number'} from ${minValue} to ${maxValue}${off}`;
}

/** The schema of the numbers of a setting; undefined if its values are not numbers. */
export function numberIn(field: unknown): z.ZodNumber | undefined {
  const inner = withoutDefault(field);
  if (inner instanceof z.ZodNumber) return inner;
  return inner instanceof z.ZodUnion ? inner.options.find((option) => option instanceof z.ZodNumber) : undefined;
}

/** The words that a setting may be; undefined if its values are not words. */
export function choicesIn(field: unknown): readonly string[] | undefined {
  if (field instanceof z.ZodBoolean) return ['true', 'false'];
  return field instanceof z.ZodEnum ? field.options.map(String) : undefined;
}

function withoutDefault(field: unknown): unknown {
  return field instanceof z.ZodDefault || field instanceof z.ZodOptional ? field.unwrap() : field;
}
