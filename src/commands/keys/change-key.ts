/** Executes a command on a key while the key of its administrator is as it was when the command was decided. */
import { type Decided, whileConditionsChange } from '../guard.ts';
import { executeCommand, type Handled } from '../handle-command.ts';
import { type KeyCommand, type KeyState, keyDecider, keyStream, unchangedAdministrator } from './key.ts';

/**
 * @param commandOf the command with the administrator as it is now; called again when that has changed meanwhile
 * @throws what `commandOf` throws; Refusal
 */
export function changeKey(
  commandOf: () => KeyCommand,
  decided: Decided,
  ifRevision?: bigint | 'noStream',
): Promise<Handled<KeyState>> {
  return whileConditionsChange(decided, () => {
    const command = commandOf();
    const conditions = unchangedAdministrator(command);
    const options = { log: decided.log, stream: keyStream(command.id), ifRevision, conditions };
    return executeCommand(keyDecider, command, options);
  });
}
