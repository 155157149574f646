import { EngineUnsuitable, type LogEngine, PlaceLost } from './engine.ts';
import { pause } from './pause.ts';

/**
 * Opens the engine, again and again until it can be reached or the signal is aborted.
 * @param hasEvents whether the replica has events
 * @param delayed called each time it cannot be used for another reason
 * @throws EngineUnsuitable, PlaceLost
 */
export async function openEngine(
  engine: LogEngine,
  hasEvents: boolean,
  retryMs: number,
  delayed: (reason: string, error: unknown) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  let reason: string | undefined;
  while (!signal?.aborted) {
    try {
      return await engine.open(hasEvents);
    } catch (error) {
      if (error instanceof EngineUnsuitable || error instanceof PlaceLost) throw error;
      const latest = error instanceof Error ? error.message : String(error);
      if (latest !== reason) delayed(`${engine.name}: ${latest}`, error);
      reason = latest;
      await pause(retryMs, signal);
    }
  }
}
