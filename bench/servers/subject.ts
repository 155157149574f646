/** A server that takes part in a comparison. */
import type { UpstreamName } from '../upstream/start-upstreams.ts';
import type { SubjectRequest } from '../work.ts';
import type { Server } from './launch.ts';
import type { SubjectKind } from './subject-kinds.ts';

export interface Subject {
  readonly name: string;
  readonly kind: SubjectKind | 'peer';
  /** Whether nothing runs on the servers' processors while it is measured. */
  readonly isAlone: boolean;
  /** How requests for that upstream are sent to it; undefined when it does not serve that upstream. */
  subjectRequest(upstream: UpstreamName): SubjectRequest | undefined;
  /** The process that gets the requests; its threads and children count with it. */
  process(upstream: UpstreamName): Server;
  /** Waits until deferred work is finished. @returns false when it did not become idle in time */
  rest(): Promise<boolean>;
}

/** Registers a server, so that it is stopped at the end. */
export type Start = (server: Promise<Server>) => Promise<Server>;
