/** Whether a key or a user path may use a model, and who allowed it. */
import { useState } from 'preact/hooks';
import { isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery } from '../../app/as-of.ts';
import { route, setQuery } from '../../app/router.ts';
import { Pieces } from '../../content/text/pieces.tsx';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { Actor } from './actor.tsx';
import { answerSentence, decidingSteps, type Explanation, type Step, stepTitle, subjectOfStep } from './explanation.ts';
import { withoutSecrets } from './key-state.ts';
import { historyHref } from './keys-address.ts';
import { useModelSuggestions } from './model-suggestions.ts';

export function ExplainTab() {
  const { query } = route.value;
  const value = (name: string) => query.get(name) ?? '';
  const asked = { key: value('key'), user_path: value('user_path'), model: value('model') };
  return (
    <div class="keys-stack">
      <Question key={JSON.stringify(asked)} asked={asked} />
      {asked.model === '' ? (
        <EmptyState title="Enter a model, and a key or a user path.">
          <p>
            The answer names each list and policy that is checked, and who set it and when. Choose a past time above to
            see what was in force then.
          </p>
        </EmptyState>
      ) : (
        <AnswerOf asked={asked} />
      )}
    </div>
  );
}

interface Asked {
  readonly key: string;
  readonly user_path: string;
  readonly model: string;
}

function Question({ asked }: { readonly asked: Asked }) {
  const [key, setKey] = useState(asked.key);
  const [path, setPath] = useState(asked.user_path);
  const [model, setModel] = useState(asked.model);
  const models = useModelSuggestions().filter((one) => !one.endsWith('/'));
  const { data: keys } = useAnswer('/admin/auth-keys', asOfQuery());
  const { data: users } = useAnswer('/admin/users', asOfQuery());
  return (
    <form
      class="keys-filters"
      onSubmit={(event) => {
        event.preventDefault();
        setQuery(
          { key: key.trim() || undefined, user_path: path.trim() || undefined, model: model.trim() || undefined },
          { push: true },
        );
      }}
    >
      <TextField
        label="Key (name or id)"
        value={key}
        onInput={(text) => setKey(withoutSecrets(text))}
        suggestions={keys?.map(({ name }) => name) ?? []}
      />
      <TextField
        label="User path"
        value={path}
        onInput={setPath}
        suggestions={users?.users.map(({ user_path: at }) => at) ?? []}
      />
      <TextField label="Model" value={model} onInput={setModel} suggestions={models} />
      <Button type="submit" look="main" disabled={model.trim() === ''}>
        Explain
      </Button>
    </form>
  );
}

function AnswerOf({ asked }: { readonly asked: Asked }) {
  const { data, error, since, reload } = useAnswer('/admin/explain', { ...asked, ...asOfQuery() });
  const { data: keys } = useAnswer('/admin/auth-keys', asOfQuery());
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since} />;
  const keyName = keys?.find(({ id }) => id === data.key)?.name;
  return (
    <>
      <Panel title="Answer" class="keys-answer">
        <p class="keys-sentence" role="status">
          <Badge tone={data.allowed ? 'ok' : 'bad'}>{data.allowed ? 'Yes' : 'No'}</Badge>{' '}
          <Pieces text={answerSentence(data, keyName)} />
        </p>
        <ul class="keys-plain-list">
          {decidingSteps(data).map((step, at) => (
            <li key={at}>
              <DecidingStep step={step} />
            </li>
          ))}
        </ul>
        {data.workflow.matching !== null && (
          <p class="keys-muted">
            Its requests run the workflow <Pieces text={data.workflow.matching.name} />, version{' '}
            {data.workflow.matching.version}.
          </p>
        )}
      </Panel>
      <Steps explanation={data} />
    </>
  );
}

/** `In the list of /team, which the master key set at …`. */
function DecidingStep({ step }: { readonly step: Step }) {
  const title = stepTitle(step);
  const isList = step.check === 'key' || step.check === 'user path';
  const decision = isList
    ? `${step.allowed ? 'It is in' : 'It is not in'} ${title}`
    : step.check === 'key is accepted'
      ? `The key is not accepted (${step.reason ?? 'unknown'})`
      : step.subject === 'default' && step.allowed
        ? 'No list and no policy restricts it'
        : `${capitalised(title)} ${step.allowed ? 'permits' : 'excludes'} it`;
  return (
    <>
      {decision}
      {step.event !== null && (
        <>
          : <Actor actor={step.event.actor} /> set this at <Time at={step.event.at} />
        </>
      )}
      {step.source === 'config' && ': the configuration declares this'}.
    </>
  );
}

function capitalised(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function Steps({ explanation }: { readonly explanation: Explanation }) {
  const withTargets = explanation.resolved.length > 1;
  return (
    <Panel title="All checks">
      <div class="plain-table-box" role="group" aria-label="All checks" tabIndex={0}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">Check</th>
              {withTargets && <th scope="col">Model</th>}
              <th scope="col">Decision</th>
              <th scope="col">List</th>
              <th scope="col">Set by</th>
            </tr>
          </thead>
          <tbody>
            {explanation.steps.map((step, at) => (
              <tr key={at}>
                <th scope="row">
                  <Pieces text={capitalised(stepTitle(step))} />
                </th>
                {withTargets && <td>{step.target ?? 'all'}</td>}
                <td>
                  <Badge tone={step.allowed ? 'ok' : 'bad'}>{step.allowed ? 'allows' : 'refuses'}</Badge>
                  {step.reason !== undefined && ` ${step.reason}`}
                </td>
                <td>{step.list === undefined ? '–' : <Pieces text={step.list.join(', ')} />}</td>
                <td>
                  <SetBy step={step} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function SetBy({ step }: { readonly step: Step }) {
  if (step.source === 'config') return <>the configuration</>;
  if (step.source === 'default' || step.event === null) {
    return (
      <>
        the default (<code>MODELS_ENABLED_BY_DEFAULT</code>)
      </>
    );
  }
  const subject = subjectOfStep(step);
  // Administrators of a subtree read the history of keys and paths only.
  const isReadable = subject !== undefined && (isGlobal.value || !subject.startsWith('virtual-model:'));
  return (
    <>
      <Actor actor={step.event.actor} />, <Time at={step.event.at} />
      {isReadable && (
        <>
          {' '}
          <a href={historyHref(subject)} aria-label={`History of ${stepTitle(step)}`}>
            History
          </a>
        </>
      )}
    </>
  );
}
