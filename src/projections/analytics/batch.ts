/**
 * A batch: exactly the rows of one range of the log. Its bytes are a function of the range and the log, so a batch that
 * was interrupted can be made again and compared with the stored rows.
 */

import type { z } from 'zod';
import {
  type requestReceived,
  requestsRefused,
  usageRecalculated,
  usageRecorded,
} from '../../events/catalogue/exchange.ts';
import { guardrailApplied } from '../../events/catalogue/guardrail.ts';
import { idOf, type Position, parsePosition, type RecordedEvent } from '../../events/event.ts';
import { isA } from '../projection.ts';
import { UnprocessableEvent } from '../snapshot-basis.ts';
import { type Applied, decidingRun } from '../verdicts.ts';
import { type ExchangeFacts, ExchangeFold } from './exchange-fold.ts';
import { writeExchange } from './exchange-row.ts';
import { isAdminChange, keyIdOrEmpty, type Retention, rowWriter, writeAdminChange, writeEvent } from './rows.ts';
import { type TableKey, tables, verdictRowId } from './tables.ts';
import { TsvRows, time } from './tsv.ts';
import {
  accountOf,
  costsOf,
  type RecalculationEvent,
  type UsageRowAccount,
  writeCorrection,
  writeUsage,
} from './usage-rows.ts';

/** A range of the log, in positions. */
export interface Range {
  /** Exclusive: everything up to here was stored before. */
  readonly after: number;
  /** Inclusive. */
  readonly to: number;
  /** Start of the read that finds the exchanges open at `after`. Exclusive; at most `after`. */
  readonly resumeAfter: number;
}

/** The rows of a range of the log. */
export interface RowBatch extends Range {
  readonly events: number;
  readonly rows: BatchRows;
}

export type BatchRows = Readonly<Record<TableKey, TsvRows>>;

/** Finds the costs of usages in rows up to and including `upTo`. Unknown usages are left out. */
export type FindAccounts = (usageIds: readonly string[], upTo: number) => Promise<ReadonlyMap<string, UsageRowAccount>>;

interface Correction {
  readonly event: RecalculationEvent;
  readonly position: number;
}

export class BatchBuilder {
  readonly #retention: Retention;
  readonly #skipped: ReadonlySet<Position>;
  readonly #exchanges = new ExchangeFold();
  #after: number;
  #resumeAfter: number;
  #to: number;
  #events = 0;
  #rows: BatchRows = emptyRows();
  readonly #spare: BatchRows[] = [];
  /** Of usages recorded in this batch. */
  #accounts = new Map<string, UsageRowAccount>();
  #corrections: Correction[] = [];

  /**
   * @param range the batch begins after `after`. Events before it, from `resumeAfter` on, must be given to `apply` too,
   *   and make no rows.
   * @param skipped events that an operator skipped: they make no rows
   */
  constructor(
    { after, resumeAfter }: Pick<Range, 'after' | 'resumeAfter'>,
    retention: Retention,
    skipped: ReadonlySet<Position> = new Set(),
  ) {
    this.#skipped = skipped;
    this.#after = after;
    this.#to = after;
    this.#resumeAfter = resumeAfter;
    this.#retention = retention;
  }

  /** Events in the batch. */
  get events(): number {
    return this.#events;
  }

  get bytes(): number {
    const { events, exchanges, usage, adminChanges, guardrailVerdicts } = this.#rows;
    return events.bytes + exchanges.bytes + usage.bytes + adminChanges.bytes + guardrailVerdicts.bytes;
  }

  /** Whether the batch may end here: not between the final event of an exchange and its usage. */
  get mayEnd(): boolean {
    return this.#events > 0 && !this.#exchanges.isEnding;
  }

  /** @throws UnprocessableEvent, after which the builder must not be used any more */
  apply(event: RecordedEvent): void {
    const position = parsePosition(event.position);
    const isNew = position > this.#after;
    if (isNew) {
      this.#to = position;
      this.#events += 1;
    }
    if (this.#skipped.size > 0 && this.#skipped.has(event.position)) return;
    try {
      this.#write(this.#exchanges.apply(event, position));
      if (isNew) this.#rowsOf(event, position);
    } catch (error) {
      throw new UnprocessableEvent('analytics', event, error);
    }
  }

  #rowsOf(event: RecordedEvent, position: number): void {
    const { usage, events, exchanges, adminChanges, guardrailVerdicts } = this.#rows;
    writeEvent(events, event, position, this.#retention);
    if (isA(event, usageRecorded)) {
      writeUsage(usage, event, position, this.#retention);
      this.#accounts.set(event.id, accountOf(event));
    } else if (isA(event, requestsRefused)) writeRefused(exchanges, event, position, this.#retention);
    else if (isA(event, usageRecalculated)) this.#corrections.push({ event, position });
    else if (isAdminChange(event.type)) writeAdminChange(adminChanges, event, position);
    else if (isA(event, guardrailApplied)) {
      const workflow = this.#exchanges.get(event.stream)?.received.data.workflow;
      writeVerdicts(guardrailVerdicts, event, position, workflow, this.#retention);
    }
  }

  /** To be called at the end of the log: nothing follows that belongs to the event before. */
  caughtUp(): void {
    this.#write(this.#exchanges.finish());
  }

  /** Ends the batch and begins the next. Only when `mayEnd`. */
  async end(find: FindAccounts): Promise<RowBatch> {
    const { oldest } = this.#exchanges;
    const after = this.#after;
    const to = this.#to;
    const rows = this.#rows;
    const batch = { after, to, resumeAfter: this.#resumeAfter, events: this.#events, rows };
    const accounts = this.#accounts;
    const corrections = this.#corrections;
    this.#after = to;
    this.#resumeAfter = oldest === undefined ? to : Math.min(to, oldest - 1);
    this.#events = 0;
    this.#rows = this.#spare.pop() ?? emptyRows();
    this.#accounts = new Map();
    this.#corrections = [];
    if (corrections.length > 0) await this.#correct(rows.usage, corrections, accounts, find, after);
    return batch;
  }

  /** Reuses the memory of a batch that is no longer needed for a later one. Its rows are cleared. */
  reuse({ rows }: RowBatch): void {
    for (const each of Object.values(rows)) each.clear();
    this.#spare.push(rows);
  }

  async #correct(
    rows: TsvRows,
    corrections: readonly Correction[],
    accounts: Map<string, UsageRowAccount>,
    find: FindAccounts,
    before: number,
  ): Promise<void> {
    const correctedIds = new Set(corrections.map(({ event }) => event.data.usageId).filter((id) => !accounts.has(id)));
    for (const [id, account] of await find([...correctedIds], before)) accounts.set(id, account);
    for (const { event, position } of corrections) {
      const account = accounts.get(event.data.usageId) ?? accountOfCorrection(event);
      writeCorrection(rows, event, position, account, this.#retention);
      accounts.set(event.data.usageId, { ...account, costs: costsOf(event.data) });
    }
  }

  #write(finished: ExchangeFacts | undefined): void {
    const end = finished?.end;
    if (finished === undefined || end === undefined || end.position <= this.#after) return;
    writeExchange(this.#rows.exchanges, finished, end, this.#retention);
  }
}

/** For a usage that is not stored any more: the values in the correction itself. */
function accountOfCorrection({ context, data }: RecalculationEvent): UsageRowAccount {
  const { total } = costsOf({ totalCost: data.previousTotalCost });
  return {
    requestId: '',
    actor: '',
    keyId: '',
    userPath: context.userPath ?? '/',
    cacheType: '',
    costs: { input: null, output: null, total },
  };
}

function emptyRows(): BatchRows {
  return {
    events: new TsvRows(),
    exchanges: new TsvRows(),
    usage: new TsvRows(),
    adminChanges: new TsvRows(),
    guardrailVerdicts: new TsvRows(),
  };
}

/** The row of `exchanges` for refused requests that the log counts in one event. */
type Refused = RecordedEvent<string, z.infer<typeof requestsRefused.data>>;

const writeExchangeRow = rowWriter(tables.exchanges);

/** The known columns; the others are empty. */
function writeRefused(rows: TsvRows, { id, context, data }: Refused, position: number, retention: Retention): void {
  const { endpoint, count } = data;
  const values = {
    position,
    id,
    at: time(data.firstAt),
    ended_at: time(data.lastAt),
    actor: context.actor,
    auth_key_id: keyIdOrEmpty(context.actor),
    auth_method: data.authMethod,
    user_path: context.userPath ?? '/',
    path: endpoint,
    endpoint,
    outcome: 'refused',
    status: data.status,
    error_type: data.type,
    error_code: data.code,
    duration_ms: data.durationMs / count,
    requests: count,
    _retention_days: retention.audit,
  };
  writeExchangeRow(rows, values, position);
}

/** The rows of `guardrail_verdicts`: one for each run of a guardrail. */
type Workflow = z.infer<typeof requestReceived.data>['workflow'];

const writeVerdict = rowWriter(tables.guardrailVerdicts);

/** @param workflow of the request; undefined when it has none or is not known */
function writeVerdicts(
  rows: TsvRows,
  event: RecordedEvent<string, Applied>,
  position: number,
  workflow: Workflow,
  retention: Retention,
): void {
  const { context, stream, data } = event;
  const deciding = decidingRun(data);
  for (const [index, run] of data.runs.entries()) {
    const values = {
      position,
      at: time(event.at),
      type: run.type,
      exchange_id: idOf(stream),
      request_id: context.requestId,
      actor: context.actor,
      auth_key_id: keyIdOrEmpty(context.actor),
      user_path: context.userPath ?? '/',
      guardrail: run.guardrail,
      phase: data.phase,
      verdict: run.verdict,
      run: index,
      step: run.step,
      attempt: data.attempt,
      code: run.code,
      message: run.message,
      error: run.error,
      fail_mode: run.failMode,
      edited: Number(run.edited),
      findings: run.findings ?? {},
      duration_ns: run.durationNs,
      decided: Number(index === deciding),
      workflow_id: workflow?.id,
      workflow_version: workflow?.version,
      workflow_scope: workflow?.scope,
      _retention_days: retention.audit,
    };
    writeVerdict(rows, values, verdictRowId(position, index));
  }
}
