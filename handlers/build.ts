import { join } from 'node:path';
import { buildFunctions } from './bundle.ts';

const { outputs } = await buildFunctions(join(import.meta.dirname, '../build'));
for (const [file, { bytes }] of Object.entries(outputs)) console.log(`${file}: ${bytes.toLocaleString('en-US')} bytes`);
