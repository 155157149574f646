/** Lets the route strategy of a virtual model select a target, within a time limit. */
import type { Branch } from './expand.ts';
import type { FallbackReason, RouteFallbacks } from './route-fallbacks.ts';
import type { ReadyStrategy, RouteStrategies, StrategyPlugin } from './route-strategies.ts';
import type { RouteQuestion, RouteSelection } from './route-strategy.ts';
import type { VirtualModel } from './virtual-model.ts';

/** Milliseconds after which a selection is late. */
export const SELECTION_LIMIT_MS = 250;
const MAX_REASON = 200;

/** A place among the branches, or why there is none. */
export type Selected =
  | { readonly place: number; readonly reason: string | undefined }
  | { readonly fallback: FallbackReason };

export interface SelectOptions {
  readonly strategies: RouteStrategies;
  readonly fallbacks: RouteFallbacks;
}

/** A promise only when the strategy returns one; never throws and never rejects. Fallbacks are counted. */
export function selectTarget(
  model: VirtualModel,
  plugin: StrategyPlugin,
  question: () => RouteQuestion,
  { strategies, fallbacks }: SelectOptions,
): Selected | Promise<Selected> {
  const counted = (selected: Selected): Selected => {
    if ('fallback' in selected) fallbacks.note(plugin.name, selected.fallback);
    return selected;
  };
  const ready = strategies.of(model, plugin);
  if ('kind' in ready) return counted({ fallback: ready.kind });
  const selected = askStrategy(ready, question());
  return selected instanceof Promise ? selected.then(counted) : counted(selected);
}

function askStrategy({ strategy, config }: ReadyStrategy, question: RouteQuestion): Selected | Promise<Selected> {
  const ending = new AbortController();
  const count = question.targets.length;
  try {
    const selection = strategy.select(config, question, ending.signal);
    return selection instanceof Promise ? inTime(selection, count, ending) : checked(selection, count);
  } catch {
    return { fallback: 'failed' };
  }
}

function inTime(selection: Promise<RouteSelection>, count: number, ending: AbortController): Promise<Selected> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      resolve({ fallback: 'late' });
      ending.abort();
    }, SELECTION_LIMIT_MS);
    const end = (selected: Selected) => {
      clearTimeout(timer);
      resolve(selected);
    };
    selection.then(
      (one) => end(checked(one, count)),
      () => end({ fallback: 'failed' }),
    );
  });
}

/** Plugins are not trusted to return the declared type. */
function checked(selection: RouteSelection | null | undefined, count: number): Selected {
  const { index, reason } = selection ?? {};
  if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count) {
    return { fallback: 'unknown_target' };
  }
  return { place: index, reason: typeof reason === 'string' ? reason.slice(0, MAX_REASON) : undefined };
}

/** `<provider>/<model>` of the model that a branch calls first. */
export function selectorOf(branch: Branch | undefined): string {
  const first = branch?.candidates[0]?.target;
  return first === undefined ? '' : `${first.provider.name}/${first.model}`;
}
