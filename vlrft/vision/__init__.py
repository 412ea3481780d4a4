"""Images, boxes and masks, the image processor, and SAM as a segmenter."""
