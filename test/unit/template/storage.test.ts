import { describe, expect, test } from 'vitest';
import { OWN_TTL_ATTRIBUTE } from '../../../src/adapters/dynamodb/table-settings.ts';
import { LOGS_PREFIX } from '../../../src/store/keys.ts';
import { EXISTING, functionOf, KEY, own, resourceOf, stackOf, TABLE_KEY } from '../../support/deployed/stacks.ts';
import type { Stack } from '../../support/deployed/template.ts';

const existing = stackOf(EXISTING);

describe('queues', () => {
  test('each keeps the order of a log, hides received jobs and keeps dead letters for two weeks', () => {
    const pairs = { SnapshotJobs: 'SnapshotFunction', MaintenanceJobs: 'MaintainFunction' };
    for (const [id, consumer] of Object.entries(pairs)) {
      const { properties } = resourceOf(own, id);
      const { timeoutSeconds } = functionOf(own, consumer);
      expect(properties.VisibilityTimeout).toBeGreaterThanOrEqual(6 * timeoutSeconds);
      expect(properties).toMatchObject({
        FifoQueue: true,
        DeduplicationScope: 'messageGroup',
        FifoThroughputLimit: 'perMessageGroupId',
        SqsManagedSseEnabled: true,
        RedrivePolicy: { deadLetterTargetArn: own.attribute(`Dead${id}`, 'Arn'), maxReceiveCount: 60 },
      });
      expect(resourceOf(own, `Dead${id}`).properties).toEqual({
        FifoQueue: true,
        SqsManagedSseEnabled: true,
        MessageRetentionPeriod: 14 * 24 * 3600,
      });
    }
  });
});

describe('tables of the stack', () => {
  test('they equal the local tables, have backups and outlive the stack', () => {
    for (const id of ['EntryTable', 'SegmentTable']) {
      const table = resourceOf(own, id);
      expect(table).toMatchObject({ deletionPolicy: 'Retain', updateReplacePolicy: 'Retain' });
      expect(table.properties).toMatchObject({
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [
          { AttributeName: 'S', AttributeType: 'B' },
          { AttributeName: 'N', AttributeType: 'N' },
        ],
        KeySchema: [
          { AttributeName: 'S', KeyType: 'HASH' },
          { AttributeName: 'N', KeyType: 'RANGE' },
        ],
        PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
        DeletionProtectionEnabled: true,
      });
      expect(table.properties.SSESpecification).toBeUndefined();
      const encrypted = stackOf({ TableKmsKeyArn: TABLE_KEY });
      expect(resourceOf(encrypted, id).properties.SSESpecification).toMatchObject({ KMSMasterKeyId: TABLE_KEY });
    }
    expect(resourceOf(own, 'EntryTable').properties).toMatchObject({
      StreamSpecification: { StreamViewType: 'NEW_IMAGE' },
      TimeToLiveSpecification: { AttributeName: OWN_TTL_ATTRIBUTE, Enabled: true },
    });
    expect(resourceOf(own, 'SegmentTable').properties.StreamSpecification).toBeUndefined();
  });

  test('the stack creates no tables if existing tables are given', () => {
    expect(existing.ofType('AWS::DynamoDB::Table')).toEqual([]);
    expect(existing.outputs).toMatchObject({ EntryTableName: 'orders-entries', SegmentTableName: 'orders-segments' });
    expect(own.outputs).toMatchObject({ EntryTableName: own.ref('EntryTable'), BucketName: own.ref('Bucket') });
  });
});

describe('buckets', () => {
  test('they are private and encrypted, and outlive the stack', () => {
    for (const id of ['Bucket', 'LostRecords']) {
      const bucket = resourceOf(own, id);
      expect(bucket).toMatchObject({ deletionPolicy: 'RetainExceptOnCreate', updateReplacePolicy: 'Retain' });
      expect(bucket.properties).toMatchObject({
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
        BucketEncryption: {
          ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
        },
      });
      const arn = own.attribute(id, 'Arn');
      expect(resourceOf(own, `${id}TlsOnly`).properties).toMatchObject({
        Bucket: own.ref(id),
        PolicyDocument: {
          Statement: [
            {
              Effect: 'Deny',
              Principal: '*',
              Action: 's3:*',
              Resource: [arn, `${arn}/*`],
              Condition: { Bool: { 'aws:SecureTransport': 'false' } },
            },
          ],
        },
      });
      const encrypted = stackOf({ KmsKeyArn: KEY });
      expect(resourceOf(encrypted, id).properties.BucketEncryption).toEqual({
        ServerSideEncryptionConfiguration: [
          {
            ServerSideEncryptionByDefault: { SSEAlgorithm: 'aws:kms', KMSMasterKeyID: KEY },
            BucketKeyEnabled: true,
          },
        ],
      });
    }
  });

  test('the bucket expires old versions, aborts uploads and uses cold storage without retrieval delay', () => {
    const rulesOf = (stack: Stack) => resourceOf(stack, 'Bucket').properties.LifecycleConfiguration;
    expect(resourceOf(own, 'Bucket').properties.VersioningConfiguration).toEqual({ Status: 'Enabled' });
    const [uploads, versions, cold] = [
      { AbortIncompleteMultipartUpload: { DaysAfterInitiation: 7 } },
      { NoncurrentVersionExpiration: { NoncurrentDays: 35 }, ExpiredObjectDeleteMarker: true },
      { Prefix: LOGS_PREFIX, Transitions: [{ StorageClass: 'INTELLIGENT_TIERING' }] },
    ];
    expect(rulesOf(own)).toMatchObject({ Rules: [uploads, versions, cold] });
    const standard = stackOf({ ColdStorageClass: 'STANDARD' });
    expect(rulesOf(standard)).toMatchObject({ Rules: [uploads, versions] });
    // A current version never expires.
    expect(JSON.stringify(rulesOf(own))).not.toMatch(/"Expiration/);
  });

  test('the stack does not change a given bucket', () => {
    expect(existing.ofType('AWS::S3::Bucket').map(({ id }) => id)).toEqual(['LostRecords']);
    expect(existing.ofType('AWS::S3::BucketPolicy').map(({ id }) => id)).toEqual(['LostRecordsTlsOnly']);
  });
});

test('an unknown attribute or resource is an error, not a wrong value', () => {
  expect(() => own.attribute('EntryTable', 'Colour')).toThrow('EntryTable.Colour');
  expect(() => existing.ref('EntryTable')).toThrow('the stack has no resource EntryTable');
});
