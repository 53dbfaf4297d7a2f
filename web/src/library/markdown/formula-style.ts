/**
 * Style of formulas: what MathML Core leaves to style, after Temml's own style sheet (MIT), without
 * its font.
 */
export const formulaStyle = `
math { font-family: "STIX Two Math", "Cambria Math", "Latin Modern Math", "Noto Sans Math", math;
  font-style: normal; font-weight: normal; line-height: normal; text-indent: 0;
  letter-spacing: normal; direction: ltr; }
math * { border-color: currentColor; }
.formula-source { white-space: pre-wrap; }
.formula-copy { position: absolute; inset-inline-start: -9999px; white-space: pre-line; }
.formula.display { display: block; text-decoration-line: none; text-align: center;
  overflow-x: auto; overflow-y: hidden; padding-block: .25em; }
math[display=block] { display: block math; width: 100%; }
mfrac > :nth-child(2), msqrt, mover > :first-child { math-shift: compact; }
.tml-right { text-align: right; text-align: -webkit-right; }
.tml-left { text-align: left; text-align: -webkit-left; }
mtable.tml-jot > mtr > mtd { padding-block: .7ex; }
mtable.tml-small mtd { padding-block: .35ex; }
menclose { display: inline-block; position: relative; padding: .5ex 0; }
.tml-overline { padding: .1em 0 0; border-top: .065em solid; }
.tml-underline { padding: 0 0 .1em; border-bottom: .065em solid; }
.tml-cancel { display: inline-block; position: absolute; inset: auto auto 0 .5px;
  width: 100%; height: 100%; background-color: currentColor; }
.upstrike {
  clip-path: polygon(.05em 100%, 0 calc(100% - .05em), calc(100% - .05em) 0, 100% .05em); }
.downstrike {
  clip-path: polygon(0 .05em, .05em 0, 100% calc(100% - .05em), calc(100% - .05em) 100%); }
.sout { clip-path: polygon(0 calc(55% + .0333em), 0 calc(55% - .0333em),
  100% calc(55% - .0333em), 100% calc(55% + .0333em)); }
.tml-fbox { padding: 3pt; border: 1px solid; }
.tml-vec { transform: scale(.75); }
@supports (not (-webkit-backdrop-filter: blur(1px))) and (not (-moz-appearance: none)) {
  .chr-sml { transform: translate(.07em, 0); }
  .chr-sml-vec { transform: scale(.75) translate(.07em, 0); }
  .chr-med { transform: translate(.14em, 0); }
  .chr-med-vec { transform: scale(.75) translate(.14em, 0); }
  .chr-lrg { transform: translate(.21em, 0); }
  .chr-lrg-vec { transform: scale(.75) translate(.21em, 0); }
  .tml-tilde-2 { transform: scale(2, 1.1); } .tml-tilde-3 { transform: scale(3, 1.1); }
  .tml-tilde-4 { transform: scale(4, 1.1); }
  .tml-hat-1 { transform: scale(1.9, 1); } .tml-hat-2 { transform: scale(3.9, 1); }
  .tml-hat-3 { transform: scale(5.8, 1); } .tml-hat-4 { transform: scale(7.8, 1); }
}
@supports (-webkit-backdrop-filter: blur(1px)) {
  .wbk-acc { transform: translate(0, .431em); }
  .wbk-sml { transform: translate(.07em, 0); } .wbk-sml-acc { transform: translate(.07em, .431em); }
  .wbk-med { transform: translate(.14em, 0); } .wbk-med-acc { transform: translate(.14em, .431em); }
  .wbk-lrg { transform: translate(.21em, 0); } .wbk-lrg-acc { transform: translate(.21em, .431em); }
  .wbk-sml-vec, .wbk-med-vec, .wbk-lrg-vec { transform: scale(.75) translate(.14em, 0); }
}
`;
