import type { Answer } from '../../api/client.ts';
import { hrefOf, setQuery } from '../../app/router.ts';
import { formatCount } from '../../format/numbers.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Badge, type Tone } from '../../ui/status-badge.tsx';
import type { PluginUses } from './plugin-uses.ts';

export type PluginRow = Answer<'/admin/plugins'>[number];

interface PluginPanelProps {
  readonly plugin: PluginRow;
  /** Undefined while they load. */
  readonly uses: PluginUses | undefined;
  readonly isOpen: boolean;
}

const tones: Readonly<Record<PluginRow['health'], Tone>> = {
  ok: 'ok',
  starting: 'info',
  restarting: 'warn',
  failed: 'bad',
  stopped: 'plain',
};

/** One plugin type: a line, and its details when it is opened. The opened one is in the address. */
export function PluginPanel({ plugin, uses, isOpen }: PluginPanelProps) {
  const { name, label, version, description, kinds, health, error, source } = plugin;
  return (
    <details
      class="plugin"
      open={isOpen}
      onToggle={(event) => {
        const isNowOpen = event.currentTarget.open;
        if (isNowOpen !== isOpen) setQuery({ plugin: isNowOpen ? name : undefined });
      }}
    >
      <summary>
        <span class="plugin-name">
          {label === '' ? name : label} {label !== name && <code>{name}</code>}
          {version !== undefined && <small> {version}</small>}
        </span>
        <span class="plugin-hooks">{kinds.join(', ')}</span>
        {source !== 'builtin' && <Badge tone={tones[health]}>{health}</Badge>}
      </summary>
      <div class="plugin-details">
        {error !== '' && (
          <p class="plugin-error" role="note">
            <strong>Last failure.</strong> {error}
          </p>
        )}
        <p>{description === '' ? 'It has no description.' : description}</p>
        <Facts plugin={plugin} />
        <Uses uses={uses} kinds={kinds} />
        <Fields title="Settings" fields={plugin.fields} />
        <Fields title="Settings of virtual models (strategy_config)" fields={plugin.route_fields} />
      </div>
    </details>
  );
}

function Facts({ plugin }: { readonly plugin: PluginRow }) {
  const { source, digest, mutates, guardrail, counters, kinds } = plugin;
  return (
    <dl class="plugin-facts">
      <div>
        <dt>Hooks</dt>
        <dd>{kinds.length === 0 ? 'none' : kinds.join(', ')}</dd>
      </div>
      <div>
        <dt>Changes texts</dt>
        <dd>{mutates ? 'yes' : 'no'}</dd>
      </div>
      <div>
        <dt>Protection</dt>
        <dd>{guardrail ? 'its verdicts are those of a guardrail' : 'no'}</dd>
      </div>
      <div>
        <dt>Source</dt>
        <dd>{source === 'builtin' ? 'built in' : source}</dd>
      </div>
      {digest !== undefined && (
        <div>
          <dt>SHA-256 of its files</dt>
          <dd>
            <code>{digest.slice(0, 12)}…</code> <CopyButton text={digest} />
          </dd>
        </div>
      )}
      {counters !== undefined && (
        <div>
          <dt>Since the start</dt>
          <dd>
            {formatCount(counters.calls)} calls, {formatCount(counters.failures)} failed;{' '}
            {formatCount(counters.restarts)} restarts of its process; {formatCount(counters.dropped)} exchanges dropped
          </dd>
        </div>
      )}
    </dl>
  );
}

function Uses({ uses, kinds }: Pick<PluginPanelProps, 'uses'> & Pick<PluginRow, 'kinds'>) {
  if (uses === undefined) return null;
  const { guardrails, workflows, virtualModels } = uses;
  const ofAll = kinds.filter((kind) => kind === 'request' || kind === 'complete');
  if (guardrails.length + virtualModels.length === 0) {
    if (ofAll.length > 0) return <p>It is called for every request ({ofAll.join(', ')}).</p>;
    return <p>No guardrail and no virtual model uses it.</p>;
  }
  return (
    <ul class="plugin-uses" aria-label="Used by">
      {guardrails.length > 0 && (
        <li>
          <a href={hrefOf('/workflows', { tab: 'guardrails' })}>Guardrails</a>: {guardrails.join(', ')}
          {workflows.length === 0 && ' (in no active workflow)'}
        </li>
      )}
      {workflows.length > 0 && (
        <li>
          <a href={hrefOf('/workflows')}>Workflows</a>: {workflows.join(', ')}
        </li>
      )}
      {virtualModels.length > 0 && (
        <li>
          <a href={hrefOf('/models')}>Virtual models</a>: {virtualModels.join(', ')}
        </li>
      )}
    </ul>
  );
}

function Fields({ title, fields }: { readonly title: string; readonly fields: PluginRow['fields'] }) {
  if (fields.length === 0) return null;
  return (
    <div class="plain-table-box" tabIndex={0} role="group" aria-label={title}>
      <table class="plain-table">
        <caption class="plugin-caption">{title}</caption>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Kind</th>
            <th scope="col">Meaning</th>
          </tr>
        </thead>
        <tbody>
          {fields.map(({ key, label, input, required, help, options }) => (
            <tr key={key}>
              <th scope="row">
                <code>{key}</code>
              </th>
              <td>
                {input}
                {required ? ', required' : ''}
              </td>
              <td>
                {label}
                {help === undefined || help === '' ? '' : `. ${help}`}
                {options !== undefined && ` (${options.map(({ value }) => value).join(', ')})`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
