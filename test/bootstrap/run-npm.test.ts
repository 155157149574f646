import { expect, it } from 'vitest';
import { run } from '../../scripts/run-npm.mjs';

const node = (source: string, timeoutMs?: number) =>
  run(process.execPath, ['--eval', source], import.meta.dirname, { timeoutMs });

it('collects the output of a command', async () => {
  expect(await node('console.log("out"); console.error("err"); process.exit(3)')).toEqual({
    code: 3,
    output: 'out\nerr\n',
    signal: undefined,
  });
});

it('ends a command that takes too long, also when a process that it started holds its output open', async () => {
  const began = performance.now();
  const outcome = await node(
    `console.log('started');
     require('node:child_process').spawn('sleep', ['5'], { stdio: 'inherit' });
     setInterval(() => {}, 1000);`,
    500,
  );
  expect(outcome).toEqual({ code: 1, output: 'started\nIt was stopped after 0.5 s.', signal: undefined });
  expect(performance.now() - began).toBeLessThan(3000);
});
