import { Button } from '../../ui/button.tsx';

interface RuleActionsProps {
  /** What is changed, for screen readers: `the daily budget of /team`. */
  readonly of: string;
  /** Declared in the configuration: it can only be reset. */
  readonly isDeclared: boolean;
  readonly onAction: (name: 'edit' | 'reset' | 'remove') => void;
}

export function RuleActions({ of, isDeclared, onAction }: RuleActionsProps) {
  return (
    <span class="limit-actions">
      {!isDeclared && (
        <Button label={`Edit ${of}`} onClick={() => onAction('edit')}>
          Edit
        </Button>
      )}
      <Button label={`Reset ${of}`} onClick={() => onAction('reset')}>
        Reset
      </Button>
      {!isDeclared && (
        <Button label={`Remove ${of}`} onClick={() => onAction('remove')}>
          Remove
        </Button>
      )}
      {isDeclared && (
        <span class="limit-unknown" title="Declared in the configuration of the gateway, and changed there.">
          declared
        </span>
      )}
    </span>
  );
}
