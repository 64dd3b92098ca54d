import type { Update } from '@aws-sdk/client-dynamodb';
import type { AttributeValue, Item } from '../../log/attribute.ts';
import type { AttributeUpdate } from '../../log/log-store.ts';

/** The update of an item that sets and removes attributes if others are as expected. */
export function attributeChange({ set, remove, expected }: AttributeUpdate): Omit<Update, 'TableName' | 'Key'> & {
  readonly UpdateExpression: string;
} {
  const names: Record<string, string> = {};
  const values: Item = {};
  // One placeholder for each name, because a condition may name a changed attribute.
  const namePlaceholder = (name: string) => {
    const found = Object.keys(names).find((key) => names[key] === name);
    const key = found ?? `#n${Object.keys(names).length}`;
    names[key] = name;
    return key;
  };
  const valuePlaceholder = (value: AttributeValue) => {
    const key = `:v${Object.keys(values).length}`;
    values[key] = value;
    return key;
  };
  const sets = Object.entries(set).map(([name, value]) => `${namePlaceholder(name)} = ${valuePlaceholder(value)}`);
  const removals = remove.map(namePlaceholder);
  const conditions = Object.entries(expected).map(([name, value]) =>
    value === undefined
      ? `attribute_not_exists(${namePlaceholder(name)})`
      : `${namePlaceholder(name)} = ${valuePlaceholder(value)}`,
  );
  const clauses = [sets.length > 0 && `SET ${sets.join(', ')}`, removals.length > 0 && `REMOVE ${removals.join(', ')}`];
  return {
    UpdateExpression: clauses.filter((clause) => clause !== false).join(' '),
    ConditionExpression: ['attribute_exists(S)', ...conditions].join(' AND '),
    ExpressionAttributeNames: names,
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: values }),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  };
}
