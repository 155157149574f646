/**
 * Memory of administrators' reads of recorded content. Answers are made one after another in a few places; those that
 * are made and not read yet share a limit, beyond which the oldest connection is closed.
 */
import type { FastifyReply } from 'fastify';
import { refusals } from '../../../commands/refusal.ts';
import type { Routes, ZodTypes } from '../../api/route-schema.ts';
import { Places, UNCOUNTED_BYTES } from '../../bodies.ts';
import { UnreadAnswers } from '../../clickhouse/turns.ts';

/** Answers that are made at the same time. An answer can need several times the size of the recorded bodies. */
const MAKING = 2;
/** Reads that wait for a place, and how long. */
const WAITING = 64;
const WAIT_MS = 10_000;
const UNREAD = { bytes: 64 * 1024 * 1024, ms: 120_000 };

export class ContentReads {
  readonly #places = new Places(MAKING);
  readonly #unread = new UnreadAnswers(UNREAD);
  readonly #made = new WeakMap<FastifyReply, () => void>();

  /** Waits for a place. @throws Refusal 503 when too many reads wait, or for too long; 499 when the client has left */
  async begin(reply: FastifyReply): Promise<void> {
    if (this.#places.waiting >= WAITING) throw refusals.contentReadsBusy();
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    const late = AbortSignal.timeout(WAIT_MS);
    const free = await this.#places.take(AbortSignal.any([gone.signal, late]));
    if (free === undefined) throw gone.signal.aborted ? refusals.requestCanceled() : refusals.contentReadsBusy();
    this.#made.set(reply, free);
    if (gone.signal.aborted) free();
    else reply.raw.once('close', free);
  }

  /** The answer is made: its place is free, and its bytes count until they are read. */
  made(reply: FastifyReply, bytes: number): void {
    this.#made.get(reply)?.();
    if (bytes <= UNCOUNTED_BYTES || reply.raw.closed) return;
    const read = new Promise<void>((resolve) => {
      reply.raw.once('close', resolve);
    });
    void this.#unread.during(
      bytes,
      () => reply.raw.destroy(),
      () => read,
    );
  }
}

/** Registers routes whose answers contain recorded content. */
export function registerContentReads(admin: Routes, reads: ContentReads, register: (content: Routes) => void): void {
  admin.register(async (plugin) => {
    plugin.addHook('preHandler', async (_request, reply) => reads.begin(reply));
    plugin.addHook('onSend', async (_request, reply, payload) => {
      const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
      reads.made(reply, isWhole ? Buffer.byteLength(payload) : 0);
    });
    register(plugin.withTypeProvider<ZodTypes>());
  });
}
