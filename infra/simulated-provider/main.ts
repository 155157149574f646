/** The simulated provider on its own: `node main.ts --port 4010 --responses native --models a,b`. */
import { parseArgs } from 'node:util';
import { FAMILIES, type Family, familyNamed } from './options.ts';
import { createSimulatedProvider } from './server.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '4010' },
    host: { type: 'string', default: '127.0.0.1' },
    /** Milliseconds between stream frames. */
    pace: { type: 'string', default: '0' },
    responses: { type: 'string', default: 'native' },
    /** Families of paths that are a 404: `messages,ollama,files`. */
    absent: { type: 'string', default: '' },
    models: { type: 'string' },
    /** Length of an ordinary answer, in tokens. */
    words: { type: 'string', default: '16' },
    'context-window': { type: 'string', default: '4096' },
    'api-key': { type: 'string' },
  },
});

const provider = createSimulatedProvider({
  paceMs: Number(values.pace),
  responses: values.responses === 'absent' ? 'absent' : 'native',
  ...absent(values.absent),
  words: Number(values.words),
  props: { contextWindow: Number(values['context-window']) },
  ...(values.models === undefined ? {} : { models: values.models.split(',') }),
  ...(values['api-key'] === undefined ? {} : { apiKey: values['api-key'] }),
});

const url = await provider.listen(Number(values.port), values.host);
console.log(`simulated provider listening on ${url}`);

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => void provider.close().then(() => process.exit(0)));
}

function absent(names: string): Partial<Record<Family, 'absent'>> {
  const families = names.split(',').filter((name) => name !== '');
  const unknown = families.find((name) => familyNamed(name) === undefined);
  if (unknown !== undefined)
    throw new Error(`--absent: there is no family '${unknown}'; there are ${Object.keys(FAMILIES).join(', ')}`);
  return Object.fromEntries(families.map((name) => [name, 'absent']));
}
