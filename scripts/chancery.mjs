#!/usr/bin/env node
/** The `chancery` command: src/main.ts, run with the project's own Node. */
process.argv.splice(2, 0, 'src/main.ts');
await import('./run.mjs');
