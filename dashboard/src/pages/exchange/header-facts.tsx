/** The main facts of a request, each with a link to the requests that share it. */
import type { ComponentChildren } from 'preact';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { formatDuration } from '../../format/numbers.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Money, Time } from '../../ui/facts.tsx';
import { StatusBadge } from '../../ui/status-badge.tsx';
import { totalsOf } from './cost/totals.ts';
import type { ExchangeFacts } from './record/exchange-facts.ts';

export function HeaderFacts({ id, facts }: { readonly id: string; readonly facts: ExchangeFacts }) {
  const { received, provider, model, requestedModel, outcome, status, durationMs, firstByteMs } = facts;
  const { actor, user_path: userPath, request_id: requestId } = received;
  const keyId = actor.startsWith('key:') ? actor.slice('key:'.length) : undefined;
  const { dollars, inputTokens, outputTokens, isKnown } = totalsOf(facts);
  return (
    <dl class="exchange-facts">
      <Fact title="Status">
        <StatusBadge status={status} outcome={outcome} />
      </Fact>
      <Fact title="Received">
        <Time at={facts.receivedAt} />
      </Fact>
      <Fact title="Duration">
        {durationMs === undefined ? 'running' : formatDuration(durationMs)}
        {firstByteMs !== undefined && (
          <span class="exchange-muted"> first byte after {formatDuration(firstByteMs)}</span>
        )}
      </Fact>
      <Fact title="Model">
        {requestedModel === undefined ? (
          '–'
        ) : (
          <a href={hrefOf('/audit', { requested_model_is: requestedModel })}>
            <Pieces text={requestedModel} />
          </a>
        )}
        {model !== undefined && requestedModel !== `${provider ?? ''}/${model}` && (
          <span class="exchange-muted">
            {' '}
            <Pieces text={`${provider ?? ''}/${model}`} />
          </span>
        )}
      </Fact>
      <Fact title="Provider">
        {provider === undefined ? '–' : <a href={hrefOf('/audit', { provider_name: provider })}>{provider}</a>}
      </Fact>
      <Fact title="Key">{keyId === undefined ? actor === 'master' ? 'master key' : actor : <Key id={keyId} />}</Fact>
      <Fact title="User path">
        <a href={hrefOf('/audit', { user_path: userPath ?? '/' })}>
          <Pieces text={userPath ?? '/'} />
        </a>
      </Fact>
      {facts.sessionId !== undefined && (
        <Fact title="Session">
          <a href={hrefOf('/audit', { session_id: facts.sessionId })}>
            <Pieces text={facts.sessionId} />
          </a>
        </Fact>
      )}
      <Fact title="Tokens">{isKnown ? `${inputTokens} in, ${outputTokens} out` : '–'}</Fact>
      <Fact title="Cost">{facts.usage.length === 0 ? '–' : <Money dollars={dollars} />}</Fact>
      {facts.answerOf !== undefined && (
        <Fact title={facts.cacheHit === undefined ? 'Answer on record of' : 'Cached answer of'}>
          <a href={hrefOf(`/exchange/${encodeURIComponent(facts.answerOf)}`)}>{facts.answerOf}</a>
        </Fact>
      )}
      {facts.labels.length > 0 && (
        <Fact title="Labels">
          <Pieces text={facts.labels.join(', ')} />
        </Fact>
      )}
      <Fact title="Id">
        <code>{id}</code> <CopyButton text={id} what="id" />
      </Fact>
      {requestId !== undefined && (
        <Fact title="Request id">
          <code>
            <Pieces text={requestId} />
          </code>
        </Fact>
      )}
    </dl>
  );
}

/** Its name, where the key still exists and may be read. */
function Key({ id }: { readonly id: string }) {
  const { data } = useAnswer({ of: '/admin/auth-keys/{id}', at: `/admin/auth-keys/${encodeURIComponent(id)}` });
  return (
    <>
      <a href={hrefOf('/audit', { auth_key_id: id })}>
        <Pieces text={data?.name ?? id} />
      </a>
      {data !== undefined && (
        <span class="exchange-muted">
          {' '}
          {id} <a href={hrefOf(`/keys/${encodeURIComponent(id)}`)}>Open the key</a>
        </span>
      )}
    </>
  );
}

function Fact({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  );
}
