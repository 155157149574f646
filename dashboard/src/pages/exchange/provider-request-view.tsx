/** The body that the provider of an attempt received, as it is on record. */
import { hrefOf } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { formatBytes } from '../../format/numbers.ts';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { BodyView } from './body-view.tsx';
import { LoadedView } from './loaded-view.tsx';
import type { AttemptFacts, ExchangeFacts } from './record/exchange-facts.ts';
import { type ProviderRequest, useProviderRequest } from './record/use-provider-request.ts';

interface ProviderRequestViewProps {
  readonly id: string;
  readonly attempt: AttemptFacts;
  readonly facts: ExchangeFacts;
}

export function ProviderRequestView({ id, attempt }: ProviderRequestViewProps) {
  const loaded = useProviderRequest(id, attempt.number);
  return (
    <LoadedView loaded={loaded} nothing={null}>
      {(request) => (
        <Panel title={`What ${attempt.provider} received`}>
          <div class="exchange-stack">
            <RequestFacts request={request} />
            {request.body === undefined ? (
              <NoBody request={request} />
            ) : (
              <BodyView
                body={request.body}
                label={`Body that ${attempt.provider} received`}
                fileName={`${id}-attempt-${attempt.number}.json`}
              />
            )}
            <p class="exchange-muted">
              These are the bytes that were sent. Headers are not recorded, because they contain credentials.{' '}
              <a
                href={hrefOf(`/exchange/${encodeURIComponent(id)}`, {
                  tab: 'diff',
                  compare: `attempt-${attempt.number}`,
                })}
              >
                Compare with the client request
              </a>
            </p>
          </div>
        </Panel>
      )}
    </LoadedView>
  );
}

function RequestFacts({ request: { answer } }: { readonly request: ProviderRequest }) {
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Provider', `${answer.provider_name} (${answer.provider_type})`],
    ['Model', answer.model],
    ['Format', answer.dialect],
    ['Path', answer.path],
    ['Content type', answer.content_type],
    ['Size', answer.bytes === undefined ? undefined : formatBytes(answer.bytes)],
    ['SHA-256', answer.sha256],
  ];
  return (
    <dl class="exchange-facts">
      {facts.map(([title, value]) =>
        value === undefined ? null : (
          <div key={title}>
            <dt>{title}</dt>
            <dd>
              <Pieces text={value} />
            </dd>
          </div>
        ),
      )}
      <div>
        <dt>Sent</dt>
        <dd>
          <Time at={answer.at} />
        </dd>
      </div>
    </dl>
  );
}

function NoBody({ request }: { readonly request: ProviderRequest }) {
  const { answer } = request;
  if (answer.parts !== undefined) {
    return (
      <div class="exchange-scroll" tabIndex={0} role="group" aria-label="Parts of the form">
        <table class="exchange-table">
          <caption>Parts of the form</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">File or value</th>
              <th scope="col">Size</th>
              <th scope="col">SHA-256</th>
            </tr>
          </thead>
          <tbody>
            {answer.parts.map((part, place) => (
              <tr key={place}>
                <th scope="row">
                  <Pieces text={part.name} />
                </th>
                <td>
                  <Pieces text={part.filename ?? part.value ?? ''} />
                </td>
                <td>{formatBytes(part.bytes)}</td>
                <td>{part.sha256}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    );
  }
  return <EmptyState title={whyNoBody(request)} />;
}

/** Why the text of the request cannot be shown. */
export function whyNoBody({ answer, body }: ProviderRequest): string {
  if (body !== undefined) return `The provider received ${formatBytes(body.bytes.length)} that are not text.`;
  if (answer.recorded === 'digest') return 'Only size and SHA-256 of the body are recorded.';
  if (answer.recorded === 'parts') return 'The body was a streamed form.';
  return 'The body is not on record: an earlier version of the gateway recorded this request.';
}
