/**
 * `node scripts/run.mjs scripts/request-path.ts`: how many files and functions of `src` one request enters, by V8's precise
 * coverage: a chat request, a Responses stream, and one that is translated. Of five requests the one that enters the fewest
 * counts: timers of the gateway may fall into one. `--list` names the files, `--functions` the functions, too.
 */
import type { Profiler } from 'node:inspector';
import { Session } from 'node:inspector/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startTestGateway } from '../test/support/gateway.ts';

const model = 'llamacpp/simulated-small';
const requests = [
  { name: 'chat', path: '/v1/chat/completions', body: { model, messages: [{ role: 'user', content: 'Hi.' }] } },
  { name: 'Responses stream', path: '/v1/responses', body: { model, input: 'Hi.', stream: true } },
  {
    name: 'translated Responses stream',
    path: '/v1/responses',
    body: { model, input: 'Hi.', stream: true },
    simulated: { responses: 'absent' as const },
  },
];
const src = pathToFileURL(join(import.meta.dirname, '../src/')).href;
/** So that nothing that happens only once counts. */
const WARM = 20;
const MEASURED = 5;
const showFunctions = process.argv.includes('--functions');
const showFiles = process.argv.includes('--list');

const session = new Session();
session.connect();
await session.post('Profiler.enable');
for (const { name, path, body, simulated } of requests) {
  const gateway = await startTestGateway({ simulated });
  const ask = async () => (await gateway.fetch(path, { method: 'POST', json: body })).text();
  for (let count = 0; count < WARM; count++) await ask();
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  let entered: ReturnType<typeof enteredIn> = [];
  let count = Number.POSITIVE_INFINITY;
  for (let measured = 0; measured < MEASURED; measured++) {
    await session.post('Profiler.takePreciseCoverage');
    await ask();
    const files = enteredIn((await session.post('Profiler.takePreciseCoverage')).result);
    const functions = files.reduce((sum, file) => sum + file.functions.length, 0);
    if (functions >= count) continue;
    entered = files;
    count = functions;
  }
  await session.post('Profiler.stopPreciseCoverage');
  console.log(`${name}: ${entered.length} files, ${count} functions`);
  for (const { file, functions } of showFiles || showFunctions ? entered : []) {
    console.log(`  ${functions.length} ${file}`);
    if (showFunctions)
      console.log(
        `    ${functions.map(({ functionName, ranges }) => `${functionName} (${ranges[0]?.count})`).join(', ')}`,
      );
  }
  await gateway.close();
}
session.disconnect();

function enteredIn(result: readonly Profiler.ScriptCoverage[]) {
  return result
    .filter(({ url }) => url.startsWith(src))
    .map(({ url, functions }) => ({
      file: url.slice(src.length),
      functions: functions.filter(({ functionName, ranges }) => functionName !== '' && (ranges[0]?.count ?? 0) > 0),
    }))
    .filter(({ functions }) => functions.length > 0);
}
