/** English, as JupyterLab's null translator has it: the number of a plural is always `%1`. */
export const trans = {
  __: (text, ...values) => text.replace(/%(\d)/g, (_, index) => values[index - 1]),
  _n: (one, many, count, ...values) => trans.__(count === 1 ? one : many, count, ...values)
};
