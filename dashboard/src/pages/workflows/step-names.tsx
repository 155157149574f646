import { Recorded } from '../../content/text/recorded.tsx';
import { groupsOf, type Payload, phases, stepsOf } from './workflow-rows.ts';

/** The guardrails of each phase in their order, in one line for each phase. */
export function StepNames({ payload }: { readonly payload: Payload }) {
  const used = phases.filter((phase) => stepsOf(payload, phase).length > 0);
  if (used.length === 0) return <>none</>;
  return (
    <ul class="wf-phases">
      {used.map((phase) => (
        <li key={phase}>
          <span class="wf-phase">{phase}</span>{' '}
          <Recorded
            text={groupsOf(stepsOf(payload, phase))
              .map((names) => names.join(' + '))
              .join(' → ')}
          />
        </li>
      ))}
    </ul>
  );
}
