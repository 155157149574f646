/** The error of a projection that no longer follows the log. */
import type { Position } from '../events/event.ts';

export class ProjectionStopped extends Error {
  readonly code = 'projection_stopped';
  readonly projection: string;
  constructor(projection: string, position: Position, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`projection ${projection} stopped after position ${position}: ${why}`, { cause });
    this.projection = projection;
  }
}
