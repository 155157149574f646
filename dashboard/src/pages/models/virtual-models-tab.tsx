import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/fields.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { closeEditor, openEditor, parameter } from './models-address.ts';
import { RemoveVirtualModel } from './remove-virtual-model.tsx';
import { type TargetHealth, targetHealth, targetText } from './targets.ts';
import type { VirtualModelRow, VirtualTarget } from './types.ts';
import { VirtualModelDialog } from './virtual-model-dialog.tsx';
import { emptyDraft } from './virtual-model-draft.ts';

/** Rows that are shown at first; each costs the browser several elements. */
const SHOWN_AT_FIRST = 100;

/** Aliases, failover and access policies. */
export function VirtualModelsTab() {
  const [removing, setRemoving] = useState<VirtualModelRow | undefined>(undefined);
  const [search, setSearch] = useState('');
  const [showsAll, setShowsAll] = useState(false);
  const list = useAnswer('/admin/virtual-models', asOfQuery());
  const models = useAnswer('/admin/models');
  const status = useAnswer('/admin/providers/status');
  const rows = list.data;
  const found = rows?.filter((row) => isFound(row, search)) ?? [];
  const shown = showsAll ? found : found.slice(0, SHOWN_AT_FIRST);
  const names = new Set(rows?.filter(({ kind }) => kind === 'redirect').map(({ source }) => source));
  const health = (target: VirtualTarget) =>
    models.data && status.data ? targetHealth(target, models.data, status.data.providers, names) : undefined;
  const edited = rows?.find(({ source }) => source === parameter('edit'));
  const added = parameter('add');
  const done = () => {
    closeEditor();
    setRemoving(undefined);
    list.reload();
  };
  const canChange = !isPast.value;
  return (
    <>
      {canChange && (
        <div class="models-actions">
          <Button look="main" onClick={() => openEditor({ add: 'virtual' })}>
            New virtual model
          </Button>
          <Button onClick={() => openEditor({ add: 'policy' })}>New access policy</Button>
        </div>
      )}
      {list.error !== undefined && <ErrorPanel error={list.error} onRetry={list.reload} />}
      {rows === undefined && list.error === undefined && <Pending since={list.since} onCancel={list.cancel} />}
      {rows !== undefined && rows.length === 0 && (
        <EmptyState title={isPast.value ? 'There was no virtual model.' : 'There is no virtual model.'}>
          <p>
            A virtual model is a name for one or several models: an alias, weighted targets, or failover from one
            provider to another.
          </p>
        </EmptyState>
      )}
      {rows !== undefined && rows.length > 0 && (
        <div class="models-filters">
          <TextField label="Name, target or user path" type="search" value={search} onInput={setSearch} />
          <p class="models-count" role="status">
            {formatCount(shown.length)} of {formatCount(rows.length)}
          </p>
        </div>
      )}
      {rows !== undefined && rows.length > 0 && found.length === 0 && <EmptyState title="No virtual model matches." />}
      {shown.length > 0 && (
        <div class="plain-table-box" role="group" aria-label="Virtual models" tabIndex={0}>
          <table class="plain-table models-table" aria-label="Virtual models">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col">Targets</th>
                <th scope="col">Strategy</th>
                <th scope="col">User paths</th>
                <th scope="col">Actions</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={row.source}>
                  <th scope="row">
                    <Recorded text={row.source} />
                    <RowState row={row} />
                    {row.description !== undefined && (
                      <p class="models-detail">
                        <Recorded text={row.description} />
                      </p>
                    )}
                  </th>
                  <td>{row.kind === 'policy' ? 'Access policy' : <Targets row={row} health={health} />}</td>
                  <td>{row.kind === 'policy' ? '–' : <Strategy row={row} />}</td>
                  <td>{row.user_paths.length === 0 ? 'all' : <Recorded text={row.user_paths.join(', ')} />}</td>
                  <td>
                    <span class="models-row-actions">
                      {row.kind === 'redirect' && (
                        <a
                          href={hrefOf('/audit', { requested_model_is: row.source })}
                          aria-label={`Requests for ${row.source}`}
                        >
                          Requests
                        </a>
                      )}
                      {row.managed && <span>Set in the configuration</span>}
                      {canChange && !row.managed && (
                        <>
                          <Button label={`Edit ${row.source}`} onClick={() => openEditor({ edit: row.source })}>
                            Edit
                          </Button>
                          <Button label={`Remove ${row.source}`} onClick={() => setRemoving(row)}>
                            Remove
                          </Button>
                        </>
                      )}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.length < found.length && (
        <div>
          <Button onClick={() => setShowsAll(true)}>Show all {formatCount(found.length)}</Button>
        </div>
      )}
      {canChange && edited !== undefined && !edited.managed && (
        <VirtualModelDialog key={edited.source} row={edited} onClose={closeEditor} onDone={done} />
      )}
      {canChange && (added === 'virtual' || added === 'policy') && (
        <VirtualModelDialog
          key={added}
          begin={emptyDraft(added === 'policy' ? 'policy' : 'redirect')}
          onClose={closeEditor}
          onDone={done}
        />
      )}
      {removing !== undefined && (
        <RemoveVirtualModel row={removing} others={rows ?? []} onClose={() => setRemoving(undefined)} onDone={done} />
      )}
    </>
  );
}

function isFound({ source, targets, user_paths }: VirtualModelRow, search: string): boolean {
  const wanted = search.trim().toLowerCase();
  const texts = [source, ...(targets ?? []).map(targetText), ...user_paths];
  return wanted === '' || texts.some((text) => text.toLowerCase().includes(wanted));
}

function RowState({ row }: { readonly row: VirtualModelRow }) {
  return (
    <>
      {!row.enabled && <Badge tone="warn">{row.kind === 'policy' ? 'refused' : 'off'}</Badge>}
      {row.enabled && !row.valid && (
        <Badge
          tone="bad"
          title={row.kind === 'policy' ? 'There is no such provider.' : 'No provider serves any of its targets now.'}
        >
          {row.kind === 'policy' ? 'no provider' : 'no target'}
        </Badge>
      )}
    </>
  );
}

interface TargetsProps {
  readonly row: VirtualModelRow;
  readonly health: (target: VirtualTarget) => TargetHealth | undefined;
}

function Targets({ row, health }: TargetsProps) {
  return (
    <ol class="models-targets">
      {(row.targets ?? []).map((target) => {
        const state = health(target);
        return (
          <li key={targetText(target)}>
            <span class="models-target-facts">
              <Recorded text={targetText(target)} />
              {target.weight !== undefined && <span class="models-detail">weight {target.weight}</span>}
              {state !== undefined && (
                <Badge tone={state.tone} title={state.reason}>
                  {state.label}
                </Badge>
              )}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function Strategy({ row }: { readonly row: VirtualModelRow }) {
  const name = row.strategy === 'plugin' ? `plugin:${row.strategy_plugin ?? ''}` : row.strategy?.replaceAll('_', ' ');
  const fails = typeof row.failover === 'object' ? row.failover.enabled : row.failover;
  return (
    <>
      {name}
      {fails === false && <p class="models-detail">without failover</p>}
      {row.strategy_problem !== undefined && (
        <p class="models-detail">
          <Badge tone="warn">weighted round robin instead</Badge> <Recorded text={row.strategy_problem} />
        </p>
      )}
    </>
  );
}
