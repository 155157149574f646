import './workflows.css';
import { access, isGlobal } from '../../api/access.ts';
import { isPast, showAsOf } from '../../app/as-of.ts';
import { setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { PageHeader } from '../../ui/page-header.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { shownTab, tabs } from './address.ts';
import { GuardrailsTab } from './guardrails-tab.tsx';
import { ReplayTab } from './replay-tab.tsx';
import { TestTab } from './test-tab.tsx';
import { WorkflowsTab } from './workflows-tab.tsx';

const nothingShown = { workflow: undefined, with: undefined, guardrail: undefined, run: undefined };

export default function WorkflowsPage() {
  const tab = shownTab();
  return (
    <>
      <PageHeader title="Workflows and guardrails" />
      {isGlobal.value ? (
        <Tabs
          label="Workflows and guardrails"
          tabs={tabs}
          shown={tab}
          onShow={(name) => setQuery({ ...nothingShown, tab: name === 'workflows' ? undefined : name }, { push: true })}
        >
          {tab === 'workflows' ? <WorkflowsTab /> : <OfGuardrails tab={tab} />}
        </Tabs>
      ) : (
        <EmptyState title="Workflows and guardrails belong to the whole gateway.">
          <p>This key administers a part of it. The page of a request shows what guardrails did with it.</p>
        </EmptyState>
      )}
    </>
  );
}

function OfGuardrails({ tab }: { readonly tab: 'guardrails' | 'test' | 'replay' }) {
  const features = access.value?.features;
  if (features?.['GUARDRAILS_ENABLED'] === 'off' && features['PLUGINS_ENABLED'] === 'off') {
    return (
      <EmptyState title="Guardrails are switched off.">
        <p>
          Start the gateway with <code>GUARDRAILS_ENABLED=true</code>, or set <code>guardrails.enabled: true</code> in
          its configuration file.
        </p>
      </EmptyState>
    );
  }
  if (tab === 'guardrails') return <GuardrailsTab />;
  if (isPast.value) {
    return (
      <EmptyState title="This tab works with the guardrails in force now.">
        <div>
          <Button onClick={() => showAsOf(undefined)}>Show the present</Button>
        </div>
      </EmptyState>
    );
  }
  return tab === 'test' ? <TestTab /> : <ReplayTab />;
}
