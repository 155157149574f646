/** The times in which a thread did not wait for events, from a processor profile: nothing else was answered meanwhile. */
import { type CpuProfile, functionNameOf } from './profile-areas.ts';

export interface Stall {
  readonly ms: number;
  /** The functions with the largest share, those of Node and V8 with the function of this project that called them. */
  readonly functions: readonly { readonly name: string; readonly ms: number }[];
}

const FUNCTIONS = 3;

/** The stalls of at least so many milliseconds, the longest first. */
export function stallsOf({ nodes, samples = [], timeDeltas = [] }: CpuProfile, leastMs: number): Stall[] {
  const frames = new Map(nodes.map((node) => [node.id, node]));
  const callers = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));

  function nameOf(id: number): string {
    const frame = frames.get(id);
    if (frame === undefined) return '(unknown)';
    const name = functionNameOf(frame.callFrame);
    for (let at: number | undefined = id; at !== undefined; at = callers.get(at)) {
      const caller = frames.get(at);
      if (caller?.callFrame.url.includes('/src/') !== true || caller.callFrame.url.includes('node_modules')) continue;
      return at === id ? name : `${name} in ${functionNameOf(caller.callFrame)}`;
    }
    return name;
  }

  const stalls: Stall[] = [];
  let busy = new Map<string, number>();
  const end = () => {
    const ms = [...busy.values()].reduce((sum, each) => sum + each, 0);
    const functions = [...busy].map(([name, each]) => ({ name, ms: each })).sort((a, b) => b.ms - a.ms);
    if (ms >= leastMs) stalls.push({ ms, functions: functions.slice(0, FUNCTIONS) });
    busy = new Map();
  };
  samples.forEach((id, at) => {
    if (frames.get(id)?.callFrame.functionName === '(idle)') {
      end();
      return;
    }
    const name = nameOf(id);
    // The time until the next sample is that of this one.
    busy.set(name, (busy.get(name) ?? 0) + (timeDeltas[at + 1] ?? 0) / 1000);
  });
  end();
  return stalls.sort((a, b) => b.ms - a.ms);
}
