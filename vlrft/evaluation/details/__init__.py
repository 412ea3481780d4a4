"""Tables of an evaluation beside its metrics, over the records that the task's `detail` assigns to them.

class_table     accuracy of each class, and which classes are taken for which
box_table       share of boxes by their IoU, and accuracy by the size of the gold box
tables          both, as printed and as JSON
"""
