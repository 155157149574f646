/** A server that takes part in a comparison. */
import type { UpstreamName } from '../upstream/start-upstreams.ts';
import type { Asked } from '../work.ts';
import type { Server } from './launch.ts';

export interface Subject {
  readonly name: string;
  /** Whether nothing runs on the servers' processors while it is measured. */
  readonly isAlone: boolean;
  /** How it is asked for what that upstream answers. */
  asked(upstream: UpstreamName): Asked;
  /** The process that is asked, whose threads and children count with it. */
  process(upstream: UpstreamName): Server;
  /** Waits until nothing put off is left to do. @returns false when it did not come to rest in time */
  rest(): Promise<boolean>;
}
