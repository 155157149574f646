/** The areas of the gateway in which a processor profile was spent, by the file of the function on top of the stack. */

export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: CallFrame;
    /** The functions that it called, by their ids. */
    readonly children?: readonly number[];
  }[];
  readonly samples?: readonly number[];
  /** In microseconds, one for each sample. */
  readonly timeDeltas?: readonly number[];
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
}

export interface Area {
  readonly name: string;
  readonly micros: number;
  /** The functions with the largest share, with their file. */
  readonly functions: readonly { readonly name: string; readonly micros: number }[];
}

/**
 * The first match counts. `url` is a file, or `node:…` for Node's own modules; empty for code that is not JavaScript.
 * Built-in functions of V8, such as `JSON.parse`, count for the function that calls them.
 */
const AREAS: readonly (readonly [name: string, url: RegExp, functionName?: RegExp])[] = [
  ['idle', /^$/, /^\(idle\)$/],
  ['garbage collection', /^$/, /^\(garbage collector\)$/],
  ['program and native code', /^$/, /^\((program|root)\)$/],
  ['native: disk', /^$/, /^(fdatasync|fsync|writeBuffers?|writeString|open|close|ftruncate)$/],
  ['native: sockets', /^$/, /^(writev|write(Latin1|Utf8|Ascii)String|readStart|readStop|shutdown)$/],
  ['native: other', /^$/],
  ['the profiler', /^node:(inspector|internal\/.*inspector)/],
  ['node: http', /^node:_?http|^node:internal\/http/],
  [
    'node: net, streams, events, timers',
    /^node:(net|events|stream|timers|internal\/(streams|stream_|timers|net|events|process|async_hooks|promise|abort))/,
  ],
  ['node: other', /^node:/],
  ['undici', /node_modules\/undici\//],
  ['fastify', /node_modules\/(fastify|@fastify|find-my-way|avvio|light-my-request)\//],
  ['zod', /node_modules\/zod\//],
  ['other packages', /node_modules\//],
  ['JSON', /\/src\/.*json[^/]*\.ts$/],
  ['log: encode and write', /src\/events\/(embedded|replicated|memory)?\/?/],
  ['http: routes', /src\/http\//],
  ['pipeline: exchange', /src\/commands\/exchange\//],
  ['commands: other', /src\/commands\//],
  ['providers: transport', /src\/providers\/[^/]+\.ts/],
  ['providers: translation and types', /src\/providers\//],
  ['projections', /src\/projections\//],
  ['gateway: other', /src\//],
  ['bare pass-through', /bench\//],
];

const FUNCTIONS = 3;

/** Without idle time and the profiler's own; the largest first. */
export function areasOf({ nodes, samples = [], timeDeltas = [] }: CpuProfile): Area[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const areas = new Map<string, Map<string, number>>();
  samples.forEach((id, at) => {
    const frame = frames.get(id);
    if (frame === undefined) return;
    const area = areaOf(frame.url, frame.functionName);
    if (area === 'idle' || area === 'the profiler') return;
    const functions = areas.get(area) ?? new Map<string, number>();
    areas.set(area, functions);
    const name = functionNameOf(frame);
    functions.set(name, (functions.get(name) ?? 0) + (timeDeltas[at] ?? 0));
  });
  return [...areas]
    .map(([name, functions]) => ({
      name,
      micros: [...functions.values()].reduce((sum, micros) => sum + micros, 0),
      functions: [...functions]
        .sort(([, left], [, right]) => right - left)
        .slice(0, FUNCTIONS)
        .map(([name, micros]) => ({ name, micros })),
    }))
    .sort((left, right) => right.micros - left.micros);
}

function areaOf(url: string, functionName: string): string {
  const found = AREAS.find(([, file, name]) => file.test(url) && (name?.test(functionName) ?? true));
  return found?.[0] ?? 'other';
}

/** The function, with its file and the folder of that. */
export function functionNameOf({ functionName, url }: CallFrame): string {
  return `${functionName || '(anonymous)'} ${url.split('/').slice(-2).join('/')}`.trim();
}
