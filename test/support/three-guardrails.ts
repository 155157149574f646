/**
 * Runs the tests of other files a second time, behind a default workflow with three guardrails that change nothing that
 * these tests assert: personal data is hidden and restored, words of requests and answers are replaced by themselves, so
 * that streams retain text, and requests get a header.
 */

/** Whether streams are evaluated as they arrive, or as a whole. */
export type WayOfStreams = 'as they arrive' | 'collected';

let chosen: WayOfStreams | undefined;

/** Every gateway that is started in this test file from now on has the guardrails. Call it before importing tests. */
export function throughThreeGuardrails(streams: WayOfStreams): void {
  chosen = streams;
}

export function hasThreeGuardrails(): boolean {
  return chosen !== undefined;
}

const config = {
  rules: ['Project Falcon', 'hello', 'sunny', 'Paris', 'secret', 'is '].map((word) => `${word} => ${word}`).join('\n'),
  roles: ['system', 'user', 'assistant', 'tool'],
};

/** Environment variables of the gateways; none unless the test file has chosen guardrails. */
export function guardrailsOfTests(): Record<string, string> {
  if (chosen === undefined) return {};
  const answers = chosen === 'collected' ? ['response'] : ['response', 'stream'];
  return {
    GUARDRAILS_ENABLED: 'true',
    GUARDRAILS: JSON.stringify([
      { name: 'personal-data', type: 'pii', phases: ['prompt'] },
      { name: 'words', type: 'string_replace', config, phases: ['prompt', ...answers] },
      { name: 'team', type: 'header_edit', config: { request_set: 'x-team: clients' }, phases: ['prompt'] },
    ]),
  };
}
