/** Rewrites the texts of one streamed answer as they arrive. */
import type { StreamChannel } from '../guarded-text.ts';
import type { GuardrailDecision } from '../guardrail-decision.ts';

export interface TextPhaseStep {
  /** For the client. */
  readonly text: string;
  /** Set once: the stream ends here. The text is sent before. */
  readonly stop?: PhaseStop;
}

/** Why a guardrail ended a stream. */
export type PhaseStop =
  | { readonly decision: GuardrailDecision; readonly decidedBy: string }
  /** The guardrail that failed. */
  | { readonly failed: string };

export interface TextPhase {
  push(channel: StreamChannel, text: string): TextPhaseStep;
  /** The text of the channel is complete: returns what was retained. */
  end(channel: StreamChannel): TextPhaseStep;
}
