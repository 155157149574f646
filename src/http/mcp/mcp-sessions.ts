/** The sessions of clients of MCP in this process: each belongs to the key that began it. */
import { randomUUID } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { Caller } from '../../commands/model-request/model-request.ts';
import { refusals } from '../../commands/refusal.ts';
import type { ClientSession } from '../../mcp/client-session.ts';
import type { Authenticator } from '../auth.ts';

export interface McpSessionsOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  /** Of a service with several processes: the session is found by it. */
  readonly worker: number;
  /** Milliseconds without a request and without a stream. Default 30 minutes. */
  readonly idleMs?: number;
  /** Default 100. */
  readonly maxPerKey?: number;
}

export interface OpenSession {
  readonly id: string;
  /** Undefined: all servers. */
  readonly slug: string | undefined;
  readonly session: ClientSession;
  readonly owner: string;
  /** The request that began it, with its key. */
  readonly request: FastifyRequest;
}

const IDLE_MS = 1_800_000;
const MAX_PER_KEY = 100;
/** Between two checks of a session: its key, its signs of life. */
const CHECK_MS = 1_000;

export class McpSessions {
  readonly #options: McpSessionsOptions;
  readonly #open = new Map<string, OpenSession>();
  #checks: NodeJS.Timeout | undefined;

  constructor(options: McpSessionsOptions) {
    this.#options = options;
  }

  /** @throws Refusal 429 */
  checkRoom(caller: Caller): void {
    const { maxPerKey = MAX_PER_KEY } = this.#options;
    const owner = ownerOf(caller);
    let ofKey = 0;
    for (const one of this.#open.values()) if (one.owner === owner) ofKey += 1;
    if (ofKey >= maxPerKey) throw refusals.tooManyMcpSessions(maxPerKey);
  }

  /** @returns its id */
  add(session: ClientSession, slug: string | undefined, caller: Caller, request: FastifyRequest): string {
    const id = `${this.#options.worker}-${randomUUID()}`;
    this.#open.set(id, { id, slug, session, owner: ownerOf(caller), request });
    this.#checks ??= setInterval(() => this.#check(), CHECK_MS).unref();
    return id;
  }

  /** The session, for the key that began it at this address. @throws Refusal 404 */
  find(id: string, slug: string | undefined, caller: Caller): OpenSession {
    const found = this.#open.get(id);
    if (found === undefined || found.slug !== slug || found.owner !== ownerOf(caller)) {
      throw refusals.mcpSessionNotFound();
    }
    return found;
  }

  async end(id: string, reason?: 'gateway_stopping'): Promise<void> {
    const session = this.#open.get(id)?.session;
    this.#open.delete(id);
    if (this.#open.size === 0) {
      clearInterval(this.#checks);
      this.#checks = undefined;
    }
    await session?.close(reason);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((id) => this.end(id, 'gateway_stopping')));
  }

  #check(): void {
    const { authenticator, idleMs = IDLE_MS } = this.#options;
    for (const { id, session, request } of this.#open.values()) {
      const isIdle = !session.isUsed && performance.now() - session.usedAt > idleMs;
      if (isIdle || !isAccepted(authenticator, request)) void this.end(id);
    }
  }
}

/** Whether the key of the request is still accepted. */
function isAccepted(authenticator: Pick<Authenticator, 'authenticate'>, request: FastifyRequest): boolean {
  try {
    authenticator.authenticate(request);
    return true;
  } catch {
    return false;
  }
}

function ownerOf({ actor, userPath }: Caller): string {
  return JSON.stringify([actor, userPath ?? '']);
}

/** The number of the process that has a session. */
export function workerOf(sessionId: string): number | undefined {
  const number = /^(\d{1,6})-/.exec(sessionId)?.[1];
  return number === undefined ? undefined : Number(number);
}
