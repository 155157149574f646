/** Tests wait for what they test, not for a time: where one has to, a comment says why. */
import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';

/** An awaited timer. In a string it belongs to a program that the test starts. */
const wait = /^[^'"`]*(?:await (?:sleep|delay|wait|setTimeout)\(|\(\((\w+)\) => setTimeout\(\1\b)/;
const reason = /^\s*\/\/ A time: ./;

/** Programs that disturb a gateway at random times, and clients with a pace: times are their subject. */
const disturbances = /^test\/crash\/(?!.*\.test\.ts$)/;

/** Every wait for a time in the tests of `root`, and in what they share, without a reason on the line before it. */
export function unexplainedWaits(root: string): string[] {
  return globSync('test/**/*.ts', { cwd: root })
    .filter((path) => !disturbances.test(path.split(sep).join('/')))
    .sort()
    .flatMap((path) => {
      const lines = readFileSync(join(root, path), 'utf8').split('\n');
      const found = lines.flatMap((line, at) => (wait.test(line) && !reason.test(lines[at - 1] ?? '') ? [at + 1] : []));
      const file = path.split(sep).join('/');
      return found.map((at) => `${file}:${at} waits for a time; wait for an event, or say why: // A time: …`);
    });
}
