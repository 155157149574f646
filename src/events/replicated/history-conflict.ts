/**
 * What a replica does when it reads an append whose writer has read another log: one of the two is wrong, and it may be
 * this one. Nothing is answered until it is known which. It asks the other gateways: each answers with an append, which
 * says what it has read.
 *
 * - Another gateway has read the same as this replica, beyond the difference: this replica is right.
 * - The other writer falls silent: it has found that the engine lost what it had read (`PlaceWatch`). This replica is right.
 * - Neither: this replica may be wrong, and stops.
 */

import type { EncodedAppend } from '../embedded/append-batch.ts';
import { type StreamName, streamName } from '../event.ts';
import { type DecidedAppend, HistoryDiffers } from './append-applier.ts';
import type { SequencedAppend } from './engine.ts';

export interface HistoryConflictParts {
  /** Whether this process sends with that id. */
  readonly isOwn: (writer: string) => boolean;
  /** Appends something. */
  readonly send: (append: EncodedAppend) => void;
  /** The conflict begins or ends. */
  readonly changed: () => void;
  /** Decisions that may be answered now. */
  readonly settle: (decision: DecidedAppend) => void;
  /** No gateway has agreed, and the other one goes on. */
  readonly lost: () => void;
  readonly timing: HistoryConflictTiming;
}

export interface HistoryConflictTiming {
  /** How long an agreement, or the silence of the other gateway, is waited for. */
  readonly conflictMs: number;
}

interface Conflict {
  /** An agreement at this position or a later one ends the conflict. */
  readonly position: number;
  readonly writers: Set<string>;
  readonly since: number;
  /** When the latest append of another history, and the latest one of this process, was read. */
  differedAt: number;
  ownAt: number;
  readonly timer: NodeJS.Timeout;
}

const maxDismissed = 1_000;
const questionsPerConflict = 20;
/** Of a question. It never has an event. */
const questions: StreamName = streamName('log', 'questions');
const noEvents = Buffer.alloc(0);
const question: EncodedAppend = {
  writes: [{ stream: questions, expectedRevision: 'any', count: 0 }],
  records: noEvents,
};
const answer: EncodedAppend = { writes: [], records: noEvents };

export class HistoryConflict {
  readonly #parts: HistoryConflictParts;
  #conflict: Conflict | undefined;
  #held: DecidedAppend[] = [];
  /** Writers against which another gateway has agreed with this one. */
  readonly #dismissed = new Set<string>();
  #answeredAt = Number.NEGATIVE_INFINITY;
  #ended = false;

  constructor(parts: HistoryConflictParts) {
    this.#parts = parts;
  }

  get exists(): boolean {
    return this.#conflict !== undefined;
  }

  /** Decisions in the order of the log. During a conflict they are kept until it ends. */
  pass(decisions: readonly DecidedAppend[]): void {
    for (const decision of decisions) {
      const { append, result } = decision;
      if (result instanceof HistoryDiffers) {
        if (result.isOfThisLog) this.#noteDifference(append, result);
      } else if (this.#conflict !== undefined) {
        this.#compare(append, this.#conflict);
      } else if (isQuestion(append)) {
        this.#answer(append);
      }
      if (this.#conflict === undefined) this.#parts.settle(decision);
      else this.#held.push(decision);
    }
  }

  /** Several questions that are read at once get one answer. */
  #answer({ writer }: SequencedAppend): void {
    const now = performance.now();
    const { isOwn, send, timing } = this.#parts;
    if (isOwn(writer) || now - this.#answeredAt < timing.conflictMs / questionsPerConflict / 2) return;
    this.#answeredAt = now;
    send(answer);
  }

  #noteDifference({ writer, seen }: SequencedAppend, { position }: HistoryDiffers): void {
    if (this.#ended || this.#dismissed.has(writer)) return;
    const now = performance.now();
    if (this.#conflict !== undefined) {
      this.#conflict.differedAt = now;
      this.#conflict.writers.add(writer);
      return;
    }
    const timer = setInterval(() => this.#check(), this.#parts.timing.conflictMs / questionsPerConflict).unref();
    this.#conflict = {
      ...{ position: Math.max(position, seen.position), writers: new Set([writer]) },
      ...{ since: now, differedAt: now, ownAt: now, timer },
    };
    this.#parts.changed();
    this.#parts.send(question);
  }

  #compare({ writer, seen }: SequencedAppend, conflict: Conflict): void {
    if (this.#parts.isOwn(writer)) conflict.ownAt = performance.now();
    else if (seen.position >= conflict.position) this.#dismiss(conflict);
  }

  #dismiss({ writers }: Conflict): void {
    if (this.#dismissed.size + writers.size > maxDismissed) this.#dismissed.clear();
    for (const writer of writers) this.#dismissed.add(writer);
    this.#endConflict();
  }

  #check(): void {
    const { conflictMs } = this.#parts.timing;
    if (this.#conflict === undefined) return;
    const { since, differedAt, ownAt } = this.#conflict;
    const now = performance.now();
    this.#parts.send(question);
    if (now - since < conflictMs) return;
    if (now - differedAt < conflictMs / 2) {
      this.end();
      this.#parts.lost();
      return;
    }
    // silence counts only while this process reads what it sends
    if (now - ownAt < conflictMs / 2) this.#endConflict();
  }

  #endConflict(): void {
    clearInterval(this.#conflict?.timer);
    this.#conflict = undefined;
    for (const decision of this.#held.splice(0)) this.#parts.settle(decision);
    this.#parts.changed();
  }

  /** What is held is not answered any more. */
  end(): void {
    this.#ended = true;
    clearInterval(this.#conflict?.timer);
    this.#held = [];
  }
}

function isQuestion({ writes, records }: SequencedAppend): boolean {
  return records.length === 0 && writes[0]?.stream === questions;
}
