/**
 * Preloaded before a program. The process starts the program like npx and waits until it ends. The
 * program gets `PROGRAM_NODE_OPTIONS` as its `NODE_OPTIONS`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const { PROGRAM_NODE_OPTIONS, ...environment } = process.env;
const env = { ...environment, npm_command: 'exec', NODE_OPTIONS: PROGRAM_NODE_OPTIONS };
await once(spawn(process.execPath, process.argv.slice(1), { stdio: 'inherit', env }), 'exit');
process.exit();
