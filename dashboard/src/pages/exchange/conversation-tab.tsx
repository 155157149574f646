/** The request and its answer as a conversation; what guardrails changed in the request is marked. */
import { ConversationView } from '../../content/conversation/conversation-view.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { LoadedView } from './loaded-view.tsx';
import { dialectOf } from './record/dialect.ts';
import type { ExchangeFacts } from './record/exchange-facts.ts';
import { guardedBodies, requestBody } from './record/recorded-bodies.ts';
import type { RecordedEvent } from './record/recorded-event.ts';
import { useClientAnswer } from './record/use-client-answer.ts';
import { useWholeBody } from './record/use-whole-body.ts';

interface ConversationTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
}

export function ConversationTab({ id, events, facts }: ConversationTabProps) {
  const dialect = dialectOf(facts.dialect, facts.path);
  const guarded = guardedBodies(events).at(-1);
  const request = useWholeBody(id, requestBody(events));
  const changed = useWholeBody(id, guarded);
  const answer = useClientAnswer(id, facts.end !== undefined);
  if (dialect === undefined) {
    return (
      <EmptyState title="This request was forwarded without being read as a conversation.">
        <p>Its bodies are in the tabs Request and Response.</p>
      </EmptyState>
    );
  }
  const nothing = <EmptyState title={noBody(facts)} />;
  return (
    <LoadedView loaded={answer} nothing={nothing}>
      {({ text: answerText, isCut }) => {
        if (guarded !== undefined && changed.data === undefined) {
          return (
            <LoadedView loaded={changed} nothing={nothing}>
              {() => null}
            </LoadedView>
          );
        }
        if (request.data === undefined && request.isLoading) {
          return (
            <LoadedView loaded={request} nothing={nothing}>
              {() => null}
            </LoadedView>
          );
        }
        const original = request.data?.text;
        if (original === undefined && answerText === undefined) return nothing;
        return (
          <>
            {isCut && <p class="exchange-muted">The answer is longer than 1 MiB: its beginning is shown.</p>}
            <ConversationView
              dialect={dialect}
              request={changed.data?.text ?? original}
              original={changed.data === undefined ? undefined : original}
              answer={answerText}
            />
          </>
        );
      }}
    </LoadedView>
  );
}

export function noBody({ capture }: Pick<ExchangeFacts, 'capture'>): string {
  return capture === 'metadata' ? 'The workflow of this request does not record bodies.' : 'No body is recorded.';
}
