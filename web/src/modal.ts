/** A modal dialog whose owner draws it for as long as it is open. */

import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Modal {
  /** What the `dialog` element is given. */
  props: {
    ref: RefObject<HTMLDialogElement | null>;
    onCancel: (event: Event) => void;
    onClose: () => void;
  };
  close: () => void;
}

/**
 * Returns a dialog that is open as soon as it is drawn; `onClose` is called once.
 *
 * A browser says a frame late that a dialog is closed, when the next one may be open. So the owner
 * learns of Escape at once, and what is said of a dialog that is gone changes nothing.
 */
export function useModal(onClose: () => void): Modal {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOver = useRef(false);
  const close = (): void => {
    if (isOver.current) return;
    isOver.current = true;
    onClose();
  };
  useLayoutEffect(() => {
    const element = dialog.current as HTMLDialogElement;
    element.showModal();
    return () => {
      isOver.current = true;
      element.close(); // So that the focus goes back to where it was.
    };
  }, []);
  return {
    props: {
      ref: dialog,
      onCancel: (event) => {
        event.preventDefault();
        close();
      },
      onClose: close,
    },
    close,
  };
}
