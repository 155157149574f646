/** The course of one round, drawn from the seed. */
import { type Fault, faults } from './faults.ts';
import type { Random } from './random.ts';

export interface RoundPlan {
  readonly loadMs: number;
  readonly end: 'SIGKILL' | 'SIGTERM';
  readonly drain: '0ms' | '300ms' | '5s';
  readonly durability: 'standard' | 'strict' | 'relaxed';
  /** Starts before the one that counts, each ended after so many milliseconds. */
  readonly endedStarts: readonly { readonly afterMs: number; readonly signal: 'SIGKILL' | 'SIGTERM' }[];
  /** Read models are derived from the log: sometimes they are lost. */
  readonly losesViews: boolean;
  readonly pluginKills: number;
  /** When the gateway reads its settings again, which then differ; the last one may be at the moment of the crash. */
  readonly reloadsAfterMs: readonly number[];
  /** The fault of the disk or the folder in this round, beside the crash. */
  readonly fault: Fault | undefined;
}

export function planOf(chance: Random, secondsPerRound: number): RoundPlan {
  const longest = Math.round(secondsPerRound * 1000);
  const loadMs = chance.between(Math.round(longest / 10), longest);
  return {
    loadMs,
    end: chance.happens(0.85) ? 'SIGKILL' : 'SIGTERM',
    drain: chance.oneOf(['0ms', '300ms', '5s']),
    durability: chance.oneOf(['standard', 'standard', 'strict', 'relaxed']),
    endedStarts: chance.happens(0.25)
      ? Array.from({ length: chance.between(1, 3) }, () => ({
          afterMs: chance.between(60, 900),
          signal: chance.happens(0.7) ? ('SIGKILL' as const) : ('SIGTERM' as const),
        }))
      : [],
    losesViews: chance.happens(0.1),
    pluginKills: chance.happens(0.6) ? chance.between(1, 3) : 0,
    reloadsAfterMs: [...Array.from({ length: chance.between(0, 2) }, () => chance.between(0, loadMs)), loadMs - 5],
    fault: chance.happens(0.4) ? chance.oneOf(faults) : undefined,
  };
}
