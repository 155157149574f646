/** The answer as the client received it, and what providers sent. */
import { useMemo } from 'preact/hooks';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { BodyView } from './body-view.tsx';
import { noBody } from './conversation-tab.tsx';
import { LoadedView } from './loaded-view.tsx';
import type { ExchangeFacts } from './record/exchange-facts.ts';
import { errorBodies, providerAnswer } from './record/recorded-bodies.ts';
import type { RecordedEvent } from './record/recorded-event.ts';
import { useClientAnswer } from './record/use-client-answer.ts';
import { useWholeBody, type WholeBody } from './record/use-whole-body.ts';

interface ResponseTabProps {
  readonly id: string;
  readonly events: readonly RecordedEvent[];
  readonly facts: ExchangeFacts;
}

export function ResponseTab({ id, events, facts }: ResponseTabProps) {
  const answer = useClientAnswer(id, facts.end !== undefined);
  const sent = useMemo(() => providerAnswer(events), [events]);
  const nothing = <EmptyState title={facts.outcome === 'refused' ? 'The client got an error.' : noBody(facts)} />;
  return (
    <div class="exchange-stack">
      <Panel title="As the client received it">
        <LoadedView loaded={answer} nothing={nothing}>
          {({ text }) =>
            text === undefined ? nothing : <TextBody text={text} label="Answer" fileName={`${id}-answer.txt`} />
          }
        </LoadedView>
      </Panel>
      {sent !== undefined && sent !== answer.data?.text && (
        <Panel title="As the provider sent it">
          <TextBody text={sent} label="Answer of the provider" fileName={`${id}-provider-answer.txt`} />
        </Panel>
      )}
      {errorBodies(events).map((body) => (
        <ErrorBody key={body.event.id} id={id} body={body} />
      ))}
    </div>
  );
}

interface TextBodyProps {
  readonly text: string;
  readonly label: string;
  readonly fileName: string;
}

function TextBody({ text, label, fileName }: TextBodyProps) {
  const body = useMemo<WholeBody>(() => ({ text, bytes: new TextEncoder().encode(text), isCut: false }), [text]);
  return <BodyView body={body} label={label} fileName={fileName} />;
}

function ErrorBody({ id, body }: { readonly id: string; readonly body: ReturnType<typeof errorBodies>[number] }) {
  const whole = useWholeBody(id, body);
  return (
    <Panel title={`Error of the provider in attempt ${body.attempt}`}>
      <LoadedView loaded={whole} nothing={null}>
        {(data) => (
          <BodyView
            body={data}
            label={`Error of attempt ${body.attempt}`}
            fileName={`${id}-attempt-${body.attempt}-error.json`}
          />
        )}
      </LoadedView>
    </Panel>
  );
}
