/**
 * Preloaded before a program. It counts the program's writes: requests that change data in
 * DynamoDB, and changes of files. It kills the process at the write with a given number, before the
 * write or a few milliseconds later. A process that survives writes its count to a file.
 */
import diagnostics from 'node:diagnostics_channel';
import files from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { z } from 'zod';

const Death = z.object({ write: z.number(), afterMs: z.number(), countFile: z.string() });
/** The environment variable that configures such a process. */
export type Death = z.infer<typeof Death>;

const CHANGES_TABLES = /\.(PutItem|UpdateItem|DeleteItem|BatchWriteItem|TransactWriteItems)$/;
const CHANGES_FILES = ['rename', 'link', 'unlink', 'open'] as const;

const death = Death.parse(JSON.parse(process.env.LOGFOLD_DEATH ?? ''));
let writes = 0;

function countWrite(): void {
  if (++writes !== death.write) return;
  const die = () => process.kill(process.pid, 'SIGKILL');
  if (death.afterMs === 0) die();
  else setTimeout(die, death.afterMs);
}

diagnostics.subscribe('http.client.request.created', (message) => {
  const { request } = z.object({ request: z.custom<{ getHeader(name: string): unknown }>() }).parse(message);
  if (CHANGES_TABLES.test(String(request.getHeader('x-amz-target')))) countWrite();
});

for (const name of CHANGES_FILES) {
  const changing = new Proxy(files.promises[name], {
    apply(change, self, words) {
      if (name !== 'open' || String(words[1]).startsWith('w')) countWrite();
      return Reflect.apply(change, self, words);
    },
  });
  Object.assign(files.promises, { [name]: changing });
}
syncBuiltinESMExports();

process.on('exit', () => files.writeFileSync(death.countFile, String(writes)));
