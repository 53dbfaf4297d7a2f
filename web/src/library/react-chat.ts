/**
 * `<conclave-chat>` as a React component. It attaches its event handlers itself: React attaches
 * none for custom events while it hydrates server-rendered markup.
 */
import {
  createElement,
  useEffect,
  useRef,
  type DetailedHTMLProps,
  type HTMLAttributes,
  type ReactElement,
} from "react";
import type {
  BackendChoice,
  ConclaveError,
  ConclaveEvent,
  Core,
  EndEvent,
  MemberSource,
  RoundEvent,
  Rule,
  Thinking,
} from "./conclave.ts";
import type { ConclaveChat as ChatElement } from "./element.ts";
import type { ConclaveChatEventMap, LoadProgress } from "./element-events.ts";

/** Handlers of the element's events, which React attaches from version 19 on. */
type Handlers = {
  [K in keyof ConclaveChatEventMap as `on${K}`]?: (event: ConclaveChatEventMap[K]) => void;
};

/** Attributes of `<conclave-chat>`, besides those of every element. */
export interface ConclaveChatAttributes
  extends Handlers,
    DetailedHTMLProps<HTMLAttributes<ChatElement>, ChatElement> {
  /**
   * References of models, separated by spaces, or the address of a list of them; the bundled
   * members by default.
   */
  members?: string;
  /** React 18 passes `className` on by that name. */
  class?: string;
  backend?: BackendChoice;
  core?: Core;
  hub?: string;
  assets?: string;
  rule?: Rule;
  thinking?: Thinking;
}

/** Props of {@link ConclaveChat}: the element's attributes and event handlers. */
export interface ConclaveChatProps
  extends Omit<
    ConclaveChatAttributes,
    "members" | "class" | "onProgress" | "onError" | "ref" | keyof Handlers
  > {
  /**
   * The attribute, or a list as for `Conclave.load`. Keep the list: a new one at each render would
   * load the members again at each question.
   */
  members?: string | MemberSource[];
  /** Called with every event of an answer. */
  onEvent?: (event: ConclaveEvent) => void;
  onRound?: (event: RoundEvent) => void;
  onEnd?: (event: EndEvent) => void;
  /** Called with the progress of the load, from 0 to 1. */
  onProgress?: (progress: LoadProgress) => void;
  onError?: (error: ConclaveError) => void;
}

/** `<conclave-chat>`; import `conclave/element` to define the element. */
export function ConclaveChat({
  className,
  members,
  onEvent,
  onRound,
  onEnd,
  onProgress,
  onError,
  ...attributes
}: ConclaveChatProps): ReactElement {
  const element = useRef<ChatElement>(null);
  const heard = {
    "conclave-event": onEvent,
    round: onRound,
    end: onEnd,
    progress: onProgress,
    error: onError,
  };
  const handlers = useRef(heard);
  useEffect(() => {
    handlers.current = heard;
  });
  useEffect(() => {
    const { current } = element;
    if (!current) return;
    const forward = ({ type, detail }: CustomEvent<never>): void =>
      handlers.current[type as keyof typeof heard]?.(detail);
    const names = Object.keys(handlers.current);
    for (const name of names) current.addEventListener(name, forward as (event: Event) => void);
    return () => {
      for (const name of names)
        current.removeEventListener(name, forward as (event: Event) => void);
    };
  }, []);
  useEffect(() => {
    const { current } = element;
    if (!current) return;
    // A string sets the attribute; a list leaves it as it was.
    if (typeof members !== "string") current.removeAttribute("members");
    current.members = members;
  }, [members]);
  return createElement("conclave-chat", {
    ...attributes,
    // React 18 takes the name as it is.
    ...(className !== undefined && { class: className }),
    ...(typeof members === "string" && { members }),
    ref: element,
  });
}

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "conclave-chat": ConclaveChatAttributes;
    }
  }
}
