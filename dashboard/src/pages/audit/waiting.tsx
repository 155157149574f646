import { Button } from '../../ui/button.tsx';
import { Pending } from '../../ui/states.tsx';

interface WaitingProps {
  readonly isLoading: boolean;
  readonly isFailed: boolean;
  readonly since: number;
  readonly onCancel: () => void;
  readonly onLoad: () => void;
}

/** Progress of the first answer; after it was stopped, a way to load it. */
export function Waiting({ isLoading, isFailed, since, onCancel, onLoad }: WaitingProps) {
  if (isLoading) return <Pending since={since} onCancel={onCancel} />;
  return isFailed ? null : <Button onClick={onLoad}>Load again</Button>;
}
