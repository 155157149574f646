/** Workflows with guardrails, made through the admin API. */
import { expect } from 'vitest';
import type { Answered } from './answered.ts';
import { json, type StartedGateway } from './with-gateway.ts';

type Gateway = Pick<StartedGateway, 'fetch'>;

export interface GuardrailMade {
  readonly name: string;
  readonly type: string;
  readonly config?: object;
  readonly fail_mode?: 'closed' | 'open';
  readonly timeout_ms?: number;
}

export interface StepMade {
  readonly ref: string;
  readonly phase?: 'prompt' | 'response' | 'stream';
  readonly step?: number;
}

export const withGuardrails = { GUARDRAILS_ENABLED: 'true' };

const features = { cache: true, audit: true, usage: true, guardrails: true };

export async function saveGuardrail(gateway: Gateway, guardrail: GuardrailMade): Promise<void> {
  const answer = await gateway.fetch('/admin/guardrails', { method: 'PUT', json: { config: {}, ...guardrail } });
  expect(answer.status, await answer.clone().text()).toBe(200);
}

/** A workflow for the user path with these steps. */
export async function guard(gateway: Gateway, userPath: string, steps: readonly StepMade[]): Promise<Answered> {
  const workflow_payload = { schema_version: 2, features, steps };
  const answer = await gateway.fetch('/admin/workflows', {
    json: { scope_user_path: userPath, name: userPath, workflow_payload },
  });
  expect(answer.status, await answer.clone().text()).toBe(201);
  return json(answer);
}
