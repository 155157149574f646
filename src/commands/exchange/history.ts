/** The turns that a request continues, loaded once. Each candidate gets the turns that its provider does not have. */
import type { TurnInput } from '../conversations/turn.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';
import type { StoredResponse } from '../responses/archive.ts';

export type EarlierTurns =
  | {
      readonly kind: 'conversation';
      readonly id: string;
      readonly turn: TurnInput;
      placeholders(): readonly RecordedPlaceholder[];
    }
  | {
      readonly kind: 'response';
      readonly previousId: string;
      /** Undefined when this gateway has not stored it, or the caller may not see it. */
      readonly head: StoredResponse | undefined;
      /** Oldest first; read once. Rejects with a Refusal when the head is not stored, or the chain is too long. */
      chain(): Promise<readonly StoredResponse[]>;
    };
