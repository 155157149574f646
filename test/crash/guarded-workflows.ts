/** The workflows with guardrails, over all rounds: new versions replace old ones while requests arrive. */
import { GUARDED, type WorkflowKind } from './check-guarded.ts';
import { objectOf, type SentRequest } from './evidence.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

export const guardedPaths = [`${GUARDED}/live`, `${GUARDED}/collected`, `${GUARDED}/changing`] as const;
export type GuardedPath = (typeof guardedPaths)[number];

/** Words that a guardrail replaces in streams, and in collected answers. */
export const replaced = { stream: ['Falcon', 'project'], response: ['Condor', 'bird'] } as const;

const guardrails = [
  { name: 'personal-data', type: 'pii', config: {} },
  { name: 'stream-words', type: 'string_replace', config: { rules: replaced.stream.join(' => ') } },
  { name: 'answer-words', type: 'string_replace', config: { rules: replaced.response.join(' => ') } },
];

const steps = [
  { ref: 'personal-data', phase: 'prompt', step: 0 },
  { ref: 'stream-words', phase: 'stream', step: 1 },
];
const collecting = { ref: 'answer-words', phase: 'response', step: 2 };
const features = { cache: true, audit: true, usage: true, guardrails: true };

export class GuardedWorkflows {
  /** By the id of the version. */
  readonly kinds = new Map<string, WorkflowKind>();
  readonly #acknowledged = new Map<GuardedPath, number>();

  /** The newest version that the gateway acknowledged. */
  acknowledged(path: GuardedPath): number {
    return this.#acknowledged.get(path) ?? 0;
  }

  /** @throws when the gateway refuses a guardrail or a workflow */
  async create(wire: Wire): Promise<void> {
    for (const guardrail of guardrails) {
      const answer = await wire.ask(adminRequest('PUT', '/admin/guardrails', guardrail));
      if (answer.status !== 200) throw new Error(`${answer.status}: ${answer.body}`);
    }
    for (const path of guardedPaths) await this.#post(wire, path, path.endsWith('collected') ? 'collected' : 'live');
    if (this.kinds.size < guardedPaths.length) throw new Error('the gateway refused a workflow');
  }

  /** A new version for the path whose workflow changes. It may be lost with the gateway before it is acknowledged. */
  change(wire: Wire, chance: Random): Promise<void> {
    return this.#post(wire, guardedPaths[2], chance.oneOf(['live', 'collected']));
  }

  async #post(wire: Wire, path: GuardedPath, kind: WorkflowKind): Promise<void> {
    const payload = { schema_version: 2, features, steps: kind === 'live' ? steps : [...steps, collecting] };
    const body = { scope_user_path: path, name: path, workflow_payload: payload };
    const answer = await wire.ask(adminRequest('POST', '/admin/workflows', body));
    const made = answer.status === 201 && answer.end === 'whole' ? objectOf(answer.body) : undefined;
    if (typeof made?.id !== 'string' || typeof made.version !== 'number') return;
    this.kinds.set(made.id, kind);
    this.#acknowledged.set(path, made.version);
  }
}

function adminRequest(method: 'PUT' | 'POST', path: string, json: object): SentRequest {
  const facts = { route: 'retrieve', provider: 'llamacpp', stream: false, requestId: undefined } as const;
  return { ...facts, method, path, body: Buffer.from(JSON.stringify(json)) };
}
