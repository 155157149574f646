import { Recorded } from '../../content/text/recorded.tsx';
import { pageHref } from './address.ts';
import { groupsOf, type Payload, phases, phaseTitles, stepsOf } from './workflow-rows.ts';

/** The guardrails of each phase as numbered lists, with links to them. */
export function StepLists({ payload }: { readonly payload: Payload }) {
  return (
    <div class="wf-step-lists">
      {phases.map((phase) => {
        const groups = groupsOf(stepsOf(payload, phase));
        return (
          <section key={phase} aria-label={phaseTitles[phase]}>
            <h3>{phaseTitles[phase]}</h3>
            {groups.length === 0 ? (
              <p class="wf-muted">none</p>
            ) : (
              <ol>
                {groups.map((names) => (
                  <li key={names.join()}>
                    {names.map((name, place) => (
                      <span key={name}>
                        {place > 0 && ' at the same time as '}
                        <a href={pageHref('guardrails', { guardrail: name })}>
                          <Recorded text={name} />
                        </a>
                      </span>
                    ))}
                  </li>
                ))}
              </ol>
            )}
          </section>
        );
      })}
    </div>
  );
}
