/** Reads of recorded bodies by administrators are events themselves: written before the body is given. */
import type { z } from 'zod';
import { auditRead } from '../../events/catalogue/audit.ts';
import { type EventContext, idOf, type RecordedEvent, type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../events/log.ts';
import type { Caller } from '../model-request/caller.ts';
import { refusals } from '../refusal.ts';
import { ownerOf } from '../visibility.ts';

type Read = z.infer<typeof auditRead.data>;

/** All of them are on one stream, so that who read what can be asked without knowing who reads. */
const AUDITED_READS = streamName('audit', 'reads');

/** Each resolves when the read is on disk: the body may be given from then on. */
export interface ReadAudit {
  /** @throws Refusal 503 when the log cannot be written: then nothing may be given */
  liveTail(what: 'live_previews' | 'live_events', filter: Record<string, string>, context: EventContext): Promise<void>;
  /** A question whose answer tells of many: what was asked is noted. @throws Refusal 503, as above */
  question(
    what: 'audit_conversation' | 'audit_export' | 'sql',
    asked: Record<string, string>,
    context: EventContext,
  ): Promise<void>;
  /**
   * A query that a user of the embedded ClickHouse's own interface sent. Who is behind that user is not known here.
   * @throws Refusal 503, as above
   */
  clickHouseQuery(user: string, asked: Record<string, string>): Promise<void>;
  /** A list of objects, of which some may be of others. Nothing is noted as below. @throws Refusal 503, as above */
  list(
    what: 'file_list' | 'batch_list',
    asked: Record<string, string>,
    caller: Caller,
    context: EventContext,
  ): Promise<void>;
  /**
   * What is stored on a stream of its own and belongs to whoever created it. Without such a stream it is something that
   * only a provider knows. Nothing is noted when the caller created it, or is no administrator: then it is read by a
   * client who sees it.
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

/** The master key, or a managed key that was let into the admin API. */
function administers({ key }: Caller): boolean {
  return key === undefined || key.dashboardAccess;
}

async function firstEvent(stream: StreamName, log: Pick<EventLog, 'readStream'>): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { maxCount: 1 })) return event;
  return undefined;
}
