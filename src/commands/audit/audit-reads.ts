/** Reads of recorded bodies by administrators are events themselves, recorded before the body is returned. */
import type { z } from 'zod';
import { auditRead } from '../../events/catalogue/access.ts';
import { type EventContext, idOf, type RecordedEvent, type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import type { Caller } from '../model-request/model-request.ts';
import { refusals } from '../refusal.ts';
import { ownerOf } from '../visibility.ts';

type Read = z.infer<typeof auditRead.data>;

/** One stream for all reads, so that they can be queried without knowing the readers. */
const AUDITED_READS = streamName('audit', 'reads');

/** Each method resolves when the read is on disk; the body may be returned from then on. */
export interface ReadAudit {
  /** @throws Refusal 503 when the log cannot be written: then nothing may be returned */
  liveTail(what: 'live_previews' | 'live_events', filter: Record<string, string>, context: EventContext): Promise<void>;
  /** A query whose result covers many objects; its parameters are recorded. @throws Refusal 503, as above */
  question(
    what: 'audit_conversation' | 'audit_export' | 'sql',
    parameters: Record<string, string>,
    context: EventContext,
  ): Promise<void>;
  /**
   * A query by a user of the embedded ClickHouse's own interface. The gateway does not know the person behind that
   * user.
   * @throws Refusal 503, as above
   */
  clickHouseQuery(user: string, parameters: Record<string, string>): Promise<void>;
  /**
   * A list of objects that may include objects of other owners. Not recorded in the cases named below.
   * @throws Refusal 503, as above
   */
  list(
    what: 'file_list' | 'batch_list',
    parameters: Record<string, string>,
    caller: Caller,
    context: EventContext,
  ): Promise<void>;
  /**
   * An object with a stream of its own, which belongs to its creator. Without such a stream, it is an object that
   * only a provider knows. Nothing is recorded when the caller created it, or is not an administrator and reads it as
   * a client.
   * @throws Refusal 503, as above
   */
  stored(what: Read['what'], stream: StreamName, caller: Caller, context: EventContext): Promise<void>;
}

export function createReadAudit(log: Pick<EventLog, 'append' | 'readStream'>): ReadAudit {
  async function note(read: Read, context: EventContext): Promise<void> {
    const events = [auditRead.create(read, context)];
    try {
      await log.append([{ stream: AUDITED_READS, events, expectedRevision: 'any' }]);
    } catch (error) {
      if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
      throw error;
    }
  }
  return {
    liveTail: (what, filter, context) => note(Object.keys(filter).length === 0 ? { what } : { what, filter }, context),
    question: (what, filter, context) => note({ what, filter }, context),
    clickHouseQuery: (user, filter) => note({ what: 'sql', filter, clickhouseUser: user }, { actor: 'system' }),
    async list(what, filter, caller, context) {
      if (administers(caller)) await note(Object.keys(filter).length === 0 ? { what } : { what, filter }, context);
    },
    async stored(what, stream, caller, context) {
      if (!administers(caller)) return;
      const begun = await firstEvent(stream, log);
      const id = idOf(stream);
      if (begun === undefined) return note({ what, id }, context);
      const { createdBy: owner, userPath } = ownerOf(begun);
      if (owner === caller.actor) return;
      await note({ what, id, owner, ...(userPath === undefined ? {} : { ownerPath: userPath }) }, context);
    },
  };
}

/** Whether the caller is the master key, or a managed key with access to the admin API. */
function administers({ key }: Caller): boolean {
  return key === undefined || key.dashboardAccess;
}

async function firstEvent(stream: StreamName, log: Pick<EventLog, 'readStream'>): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { maxCount: 1 })) return event;
  return undefined;
}
